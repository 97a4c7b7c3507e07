"""The checks of part 2: a layer and mini-batches of a network by hand."""

import math
from collections.abc import Callable
from itertools import islice, pairwise

import micrograd

from .answers import NotYet, check, close, returned, same, value_of


@check
def layer(answer: Callable, kind: type = micrograd.Value) -> None:
    _layer(answer, kind, [[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], [0.2, -0.1], [1.0, 2.0, -1.0])
    _layer(answer, kind, [[0.5], [-0.3], [0.2]], [0.1, 0.4, -0.2], [0.7])


def _layer(answer: Callable, kind: type, rows: list[list[float]], biases: list[float], xs: list[float]) -> None:
    given = [[kind(w) for w in row] for row in rows], [kind(b) for b in biases], [kind(x) for x in xs]
    outputs = returned("layer(...)", answer(*given), list, "a list with a Value for each neuron")
    if len(outputs) != len(rows):
        raise NotYet(f"for {len(rows)} neurons with {len(xs)} inputs each, the number of outputs is {len(outputs)}")
    for i, (output, row, b) in enumerate(zip(outputs, rows, biases, strict=True)):
        number = value_of(f"neuron {i} of layer(...)", output, kind).data
        products = math.fsum(w * x for w, x in zip(row, xs, strict=True))
        if not close(number, math.tanh(products + b)):
            mistakes = {
                "the sum itself, before it is squeezed": products + b,
                "what it is without its bias": math.tanh(products),
                "the sum of the products alone, without a bias, before it is squeezed": products,
                "what it is with another neuron's bias": math.tanh(products + biases[i - 1]),
            }
            hints = [f": that is {name}" for name, mistake in mistakes.items() if close(number, mistake)]
            raise NotYet(f"neuron {i} gives {number:.6g}, not {math.tanh(products + b):.6g}{''.join(hints[:1])}")
        output.backward()
    weights, b, x = given
    slopes = [1 - output.data**2 for output in outputs]
    for i, slope in enumerate(slopes):
        for j, number in enumerate(xs):
            _reaches(f"weight {j} of neuron {i}", weights[i][j].grad, slope * number)
        _reaches(f"the bias of neuron {i}", b[i].grad, slope)
    for j in range(len(xs)):
        through = math.fsum(slope * row[j] for slope, row in zip(slopes, rows, strict=True))
        _reaches(f"input {j}", x[j].grad, through)


def _reaches(what: str, found: float, expected: float) -> None:
    if not found:
        raise NotYet(f"no gradient reaches {what}: somewhere the graph is cut")
    same(f"the numbers are right, but the gradient with respect to {what}", found, expected)


@check
def batches(answer: Callable) -> None:
    xs, ys = [[float(i)] for i in range(20)], list(range(20))
    orders = []
    for _ in range(3):
        given = list(xs), list(ys)
        made = answer(*given, 8)
        if made is None:
            raise NotYet("batches(...) returns nothing, and yields nothing")
        made = [tuple(batch) for batch in islice(made, 21)]
        if len(made) > 20:
            raise NotYet("20 examples give more than 20 batches: is there something that ends the loop?")
        if any(len(batch) != 2 for batch in made):
            raise NotYet("a batch has to be two lists: the inputs, and the targets")
        sizes = [len(batch_ys) for _, batch_ys in made]
        for batch_xs, batch_ys in made:
            if len(batch_xs) != len(batch_ys):
                raise NotYet(f"a batch has {len(batch_xs)} inputs, but {len(batch_ys)} targets")
            for x, y in zip(batch_xs, batch_ys, strict=True):
                if x != [float(y)]:
                    raise NotYet(f"the input {x} comes with the target {y}: inputs and targets no longer match")
        if given != (xs, ys):
            raise NotYet("the lists that the caller gave are in another order now: shuffle a copy, or the positions")
        order = [y for _, batch_ys in made for y in batch_ys]
        if sorted(order) != ys:
            raise NotYet(f"of 20 examples there are {len(order)} in the batches, {len(set(order))} of them different")
        if sizes != [8, 8, 4]:
            raise NotYet(f"20 examples in batches of 8 come as {sizes}")
        orders.append(order)
    if orders[0] == ys:
        raise NotYet("the examples come in their original order")
    if any(a == b for a, b in pairwise(orders)):
        raise NotYet("they come in the same order each time")
    if len({frozenset(pairwise([*order, order[0]])) for order in orders}) == 1:
        raise NotYet("each example is followed by the same one each time, and only the first one differs: shuffle them")
    if all(sorted(order[:8]) == sorted(orders[0][:8]) for order in orders):
        raise NotYet("the same eight examples are always together in a batch: shuffle all of them")
