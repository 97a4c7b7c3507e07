"""The checks of part 2: a layer and mini-batches of a network by hand."""

import math
from collections.abc import Callable
from itertools import pairwise

import micrograd

from .answers import NotYet, check, close, value_of


@check
def layer(answer: Callable) -> None:
    rows, biases, xs = [[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], [0.2, -0.1], [1.0, 2.0, -1.0]
    weights = [[micrograd.Value(w) for w in row] for row in rows]
    outputs = answer(weights, [micrograd.Value(b) for b in biases], [micrograd.Value(x) for x in xs])
    if not isinstance(outputs, list):
        raise NotYet(
            f"layer(...) returns {'nothing' if outputs is None else f'a {type(outputs).__name__}'}, not a list"
        )
    if len(outputs) != len(rows):
        raise NotYet(f"for {len(rows)} neurons with {len(xs)} inputs each there are {len(outputs)} outputs")
    for i, (output, row, b) in enumerate(zip(outputs, rows, biases, strict=True)):
        number = value_of(f"neuron {i} of layer(...)", output).data
        products = math.fsum(w * x for w, x in zip(row, xs, strict=True))
        if not close(number, math.tanh(products + b)):
            mistakes = {
                "the sum itself, before it is squeezed": products + b,
                "what it is without its bias": math.tanh(products),
                "neither squeezed, nor has it a bias": products,
                "what it is with another neuron's bias": math.tanh(products + biases[1 - i]),
            }
            hints = [f": that is {name}" for name, mistake in mistakes.items() if close(number, mistake)]
            raise NotYet(f"neuron {i} gives {number:.6g}, not {math.tanh(products + b):.6g}{''.join(hints[:1])}")
        output.backward()
        if not all(w.grad for w in weights[i]):
            raise NotYet(f"no gradient reaches the weights of neuron {i}: somewhere its graph is cut")


@check
def batches(answer: Callable) -> None:
    xs, ys = [[float(i)] for i in range(20)], list(range(20))
    orders = []
    for _ in range(3):
        made = answer(list(xs), list(ys), 8)
        if made is None:
            raise NotYet("batches(...) returns nothing, and yields nothing")
        made = [tuple(batch) for batch in made]
        if any(len(batch) != 2 for batch in made):
            raise NotYet("a batch has to be two lists: the inputs, and the targets")
        sizes = [len(batch_ys) for _, batch_ys in made]
        for batch_xs, batch_ys in made:
            if len(batch_xs) != len(batch_ys):
                raise NotYet(f"a batch has {len(batch_xs)} inputs, but {len(batch_ys)} targets")
            for x, y in zip(batch_xs, batch_ys, strict=True):
                if x != [float(y)]:
                    raise NotYet(f"the input {x} comes with the target {y}: inputs and targets no longer match")
        order = [y for _, batch_ys in made for y in batch_ys]
        if sorted(order) != ys:
            raise NotYet(f"of 20 examples there are {len(order)} in the batches, {len(set(order))} of them different")
        if sizes != [8, 8, 4]:
            raise NotYet(f"20 examples in batches of 8 come as {sizes}")
        orders.append(order)
    if orders[0] == ys:
        raise NotYet("the examples come in the order that they have")
    if any(a == b for a, b in pairwise(orders)):
        raise NotYet("they come in the same order each time")
