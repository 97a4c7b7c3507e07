"""Loss functions: how far the outputs of a model are from their targets, as one Value to call `backward` on.

Names, order of arguments and formulas follow `torch.nn.functional`; inputs and targets are numbers and Values, or
nested lists (or arrays) of them. No loss overflows, however large the logits are.

Most take a `reduction` of the examples' losses: `"mean"`, `"sum"`, or `"none"` for a list of them in the shape of the
input. They raise ValueError for any other reduction, for shapes that differ, and if there are no numbers to average. A
loss that accepts only some targets raises ValueError for others, and so does its `check_targets(targets, name)`:
compiled code does not check the targets among its arguments, but `fit` checks all of them before it starts. For a loss
of your own that calls one of these, it checks only the first examples, before it compiles.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce, wraps
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar, cast

from micrograd import scalar
from micrograd.core.errors import shown
from micrograd.engine import Value, promote
from micrograd.reductions import as_row, candidate_indices, dot, exponentials, logsumexp_of, mean, sum
from micrograd.support.trees import flat, leaves
from micrograd.support.validation import as_list, by_position, is_sized, number, plain, positive

__all__ = [
    "binary_cross_entropy_with_logits", "cross_entropy", "hinge_loss", "huber_loss", "l1_loss", "l2_penalty",
    "log_softmax", "mse_loss", "nll_loss", "softmax",
]  # fmt: skip

Loss = TypeVar("Loss", bound=Callable[..., Any])

if TYPE_CHECKING:

    class Output(Value, Sequence[Value]):
        """A loss or the output of a Layer, to type checkers; really a Value or a list, depending on what is asked."""


def _for_targets(allowed: Callable[[Any], bool], expected: str) -> Callable[[Loss], Loss]:
    """Decorate a loss that accepts only these targets, and give it its `check_targets`."""

    def decorated(loss: Loss) -> Loss:
        def check_targets(targets: Any, name: str = "target") -> None:
            for path, target in leaves(name, targets):
                found = target.data if isinstance(target, Value) else plain(target)
                if isinstance(found, (int, float)) and not allowed(found):
                    raise ValueError(f"{path} is {found!r}: {loss.__name__} expects {expected}")

        @wraps(loss)
        def checked(input: Any, target: Any, **options: Any) -> Any:
            check_targets(target)
            return loss(input, target, **options)

        vars(checked).update(check_targets=check_targets)
        return cast(Loss, checked)

    return decorated


# Losses of one number and its target, or of any number of them: both in the same shape.


def mse_loss(input: Any, target: Any, *, reduction: str = "mean") -> "Output":
    """The squared error, (input - target)^2."""
    return _reduced(_each(lambda x, y: (error := x - y) * error, input, target), reduction)


def l1_loss(input: Any, target: Any, *, reduction: str = "mean") -> "Output":
    """The absolute error, |input - target|. Its derivative is 0 where both are equal."""
    return _reduced(_each(lambda x, y: abs(x - y), input, target), reduction)


def huber_loss(input: Any, target: Any, *, reduction: str = "mean", delta: float = 1.0) -> "Output":
    """Half the squared error, up to an error of `delta`; beyond that, a straight line (Huber, 1964).

    So outliers pull no harder than an error of `delta` does. Raises ValueError unless `delta` is above 0.
    """
    delta = positive("delta", delta)

    def loss(x: Value, y: Value) -> Any:
        error = x - y
        bounded = error.clip(-delta, delta)
        return bounded * (error - scalar.option(0.5, x) * bounded)

    return _reduced(_each(loss, input, target), reduction)


@_for_targets(lambda y: y in (-1, 1), "-1 or +1; for 0 and 1, use binary_cross_entropy_with_logits")
def hinge_loss(input: Any, target: Any, *, reduction: str = "mean") -> "Output":
    """relu(1 - target * input): 0 for a score on its target's side of 0 by a margin of 1 (Cortes and Vapnik, 1995)."""
    return _reduced(_each(lambda x, y: (1 - y * x).relu(), input, target), reduction)


@_for_targets(lambda y: 0 <= y <= 1, "a number from 0 to 1; for -1 and +1, use hinge_loss; for classes, cross_entropy")
def binary_cross_entropy_with_logits(input: Any, target: Any, *, reduction: str = "mean") -> "Output":
    """The cross-entropy of sigmoid(input), the probability of 1, for targets from 0 to 1: input has no sigmoid yet."""
    return _reduced(_each(_binary_cross_entropy, input, target), reduction)


def _binary_cross_entropy(x: Value, y: Value) -> Value:
    """-y log(sigmoid(x)) - (1 - y) log(sigmoid(-x)), as one node in which nothing cancels."""

    def _backward(grad: Any) -> None:
        x.grad += grad * ((1 - y.data) * scalar.sigmoid(x.data) - y.data * scalar.sigmoid(-x.data))
        y.grad -= grad * x.data

    data = y.data * scalar.softplus(-x.data) + (1 - y.data) * scalar.softplus(x.data)
    return x._node(data, (x, y), "binary_cross_entropy", _backward)


# Losses of a list of numbers, one for each class, and the index of the true class; or of a batch: a list of such lists
# and a list of indices. As in `take`, an index may be an argument of a compiled function.


def cross_entropy(
    logits: Any, target_index: Any, *, weight: Sequence[float] | None = None, label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> "Output":  # fmt: skip
    """The cross-entropy -log(softmax(logits)[target_index]), as one node for each example.

    The logits are a list for one example, or a list of such lists; the index of the true class is an int or a number
    that equals one, or a list of these, one for each example. `label_smoothing` is the share of the target, from 0 to
    1, that is spread evenly over all classes (Szegedy et al., 2016). `weight` has a number for each class, and
    multiplies the losses of its examples. The mean over a list of examples divides by the sum of their weights, as in
    PyTorch; unlike there, the loss of a single example keeps its weight, since `fit` takes plain means of these.

    Raises TypeError if the logits are not a list, ValueError if there are none, an index is out of range, there are not
    as many indices as examples or not as many weights as classes, or a weight is negative.
    """
    smoothing = number("label_smoothing", label_smoothing)
    if smoothing > 1:
        raise ValueError(f"label_smoothing is {shown(label_smoothing)}: expected a number from 0 to 1")
    if weight is not None:
        weight = [number(f"weight[{i}]", w) for i, w in enumerate(by_position("weight", weight))]
    shares: list[Any] = []  # the weight of each example

    def loss(row: Any, target: Any) -> Value:
        if weight is not None and len(weight) != len(row):
            raise ValueError(f"weight has {len(weight)} numbers: expected {len(row)}, one for each class")
        spread_out, *weights = [scalar.option(number, row[0]) for number in (smoothing, *(weight or ()))]
        shares.append(scalar.take(weights, target) if weights else 1)
        spread = [spread_out / len(row) * w for w in weights or [1] * len(row)] if smoothing else []
        return cross_entropy_node(row, target, (1 - spread_out) * shares[-1], spread)

    losses = _each_example(loss, logits, target_index)
    if weight is None or reduction != "mean" or isinstance(losses, Value):
        return _reduced(losses, reduction)
    return _reduced(sum(flat(losses)) / reduce(operator.add, shares), reduction)


def cross_entropy_node(logits: Any, target: Any, hit: Any, spread: Sequence[float]) -> Value:
    """The cross-entropy of a target: `hit` at the true class plus, unless it is empty, `spread` at all classes."""
    each = promote(*logits)
    nodes: Any = each if type(target) is int or spread else as_row(each)
    _, differences, powers, total = exponentials(nodes)
    mass = reduce(operator.add, spread, hit)
    data = hit * (scalar.log(total) - scalar.take(differences, target))
    for share, x in zip(spread, differences, strict=False):
        data += share * (scalar.log(total) - x)

    def _backward(grad: Any) -> None:
        share = grad * mass / total
        for node, power in zip(nodes, powers, strict=True):
            node.grad += share * power  # the gradient is softmax(logits), minus 1 at the target
        for node, of_class in zip(nodes, spread, strict=False):
            node.grad -= grad * of_class
        if nodes is not each:
            nodes[0].send_at(target, -(grad * hit))
            return
        for i in candidate_indices(target, len(nodes)):
            nodes[i].grad -= scalar.where(target == i, grad * hit, 0)

    loss: Value = nodes[0]._node(data, nodes, "cross_entropy", _backward)
    loss._constants = {"target": target, "hit": hit, "spread": spread}
    return loss


def nll_loss(log_probabilities: Any, target_index: Any, *, reduction: str = "mean") -> "Output":
    """-log_probabilities[target_index], for outputs of `log_softmax`; otherwise like `cross_entropy`."""
    losses = _each_example(lambda row, i: -scalar.take(promote(*row), i), log_probabilities, target_index)
    return _reduced(losses, reduction)


# From logits to probabilities. Each output is a node with two operands: its logit, and a logsumexp that all share.


def softmax(input: Any) -> list[Any]:
    """The probabilities e^x / sum of all e^x for one example's logits, or for each example of a batch.

    Raises TypeError if the logits are not a list, ValueError if there are none.
    """
    return _normalized(input, "softmax")


def log_softmax(input: Any) -> list[Any]:
    """The logarithms of `softmax`, finite even if a probability is too small for a float. Errors are the same."""
    return _normalized(input, "log_softmax")


def _normalized(input: Any, op: str) -> list[Any]:
    rows = _rows(input)
    if _items("prediction", rows[0]) is not None:  # a batch
        return [_normalized(row, op) for row in rows]
    nodes = promote(*rows)
    largest, differences, powers, total = exponentials(nodes)
    norm = logsumexp_of(nodes, largest, powers, total)
    results = map(operator.truediv, powers, repeat(total))
    if op == "log_softmax":
        results = map(operator.sub, differences, repeat(scalar.log(total)))
    return list(map(softmax_node, nodes, repeat(norm), results, repeat(op)))


def softmax_node(logit: Value, norm: Value, data: Any, op: str) -> Value:
    """A node for the probability of a logit or its logarithm, `data`; `norm` is the logsumexp of all logits."""

    def _backward(grad: Any) -> None:
        share = grad * data if op == "softmax" else grad
        logit.grad += share
        norm.grad -= share

    return logit._node(data, (logit, norm), op, _backward)


def l2_penalty(parameters: Iterable[Any]) -> Value:
    """The sum of the parameters' squares, as one node. Add a small multiple of it to a loss to keep them small."""
    parameters = as_list("parameters", parameters)
    return dot(parameters, parameters, 0)


# Shapes


def _each(loss: Callable[[Value, Value], Any], input: Any, target: Any) -> Any:
    """The loss of each number and its target, in the shape of both."""
    inputs, targets = _items("prediction", input), _items("target", target)
    if inputs is None and targets is None:
        return loss(*promote(input, target))
    shapes = ["a single number" if items is None else f"a list of {len(items)}" for items in (inputs, targets)]
    if shapes[0] != shapes[1]:
        one = inputs is None and len(targets) == 1 and not isinstance(targets[0], Value)
        remedy = f": give the target as {shown(targets[0])}, not {shown(targets)}" if one else ""
        raise ValueError(f"the prediction is {shapes[0]}, but its target is {shapes[1]}{remedy}")
    return [_each(loss, x, y) for x, y in zip(inputs, targets, strict=True)]


def _each_example(loss: Callable[[Any, Any], Value], rows: Any, targets: Any) -> Any:
    """The loss of each list and its index, or of a single list and index."""
    rows = _rows(rows)
    if _items("prediction", rows[0]) is not None:  # a batch
        indices = _items("target", targets)
        if indices is None or len(indices) != len(rows):
            raise ValueError(f"{len(rows)} examples need a list of {len(rows)} target indices, not {shown(targets)}")
        return [_each_example(loss, row, index) for row, index in zip(rows, indices, strict=True)]
    return loss(rows, scalar.as_index(targets, len(rows), "target index"))


def _rows(rows: Any) -> Any:
    """The numbers of one example or the lists of many, by position."""
    items = _items("prediction", rows)
    if items is None:
        raise TypeError(f"expected a list with a number for each class, not {type(rows).__name__}: {shown(rows)}")
    if len(items) == 0:
        raise ValueError("expected a list with a number for each class, not an empty one")
    return items


def _items(name: str, tree: Any) -> Any:
    """The items of a list, an array or a table, by position; None for a number."""
    if isinstance(tree, str):
        raise TypeError(f"{name} is {shown(tree)}: expected a number, or a list or an array of numbers")
    return by_position(name, tree) if is_sized(tree) else None


def _reduced(losses: Any, reduction: str) -> "Output":
    """The losses as they are, their mean or their sum."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is {reduction!r}: expected 'mean', 'sum' or 'none'")
    if reduction != "none" and not isinstance(losses, Value):
        losses = mean(flat(losses)) if reduction == "mean" else sum(flat(losses))
    return losses  # type: ignore[no-any-return]
