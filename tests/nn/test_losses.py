"""The losses: their formulas, their gradients of both orders, their extremes, and their agreement with PyTorch."""

import inspect
import math
import random
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import micrograd
from micrograd import grad, hessian, losses
from micrograd.engine import Value
from micrograd.losses import binary_cross_entropy_with_logits, cross_entropy, hinge_loss, log_softmax, mse_loss, softmax
from tests.helpers import flat, grads
from tests.helpers import leaves as values

Level1 = type("Level1", (Value,), {"__slots__": (), "_level": 1})

NAN, INF = math.nan, math.inf
LOGITS = {
    "ordinary": [0.3, -1.2, 2.5, 0.0], "equal": [0.7, 0.7, 0.7], "one": [3.0], "large": [1000.0, -1000.0, 999.0],
    "very large": [1e300, -1e300, 0.0], "far apart": [-1000.0, 1000.0], "small": [-1000.0, -1001.0, -1002.0],
    "masked": [-math.inf, 1.0, 2.0],
}  # fmt: skip

close = pytest.approx


def numbers(nested):
    return [numbers(v) if isinstance(v, list) else v.data for v in nested]


def history(value):
    nodes, _ = value._topological_order()
    return nodes


# Closed forms


def test_mse_loss_of_fractions_is_exact():
    xs = values([Fraction(1, 3), Fraction(1, 2)])
    assert mse_loss(xs, [0, Fraction(1, 7)]).data == (Fraction(1, 9) + Fraction(25, 196)) / 2
    mse_loss(xs, [0, Fraction(1, 7)], reduction="sum").backward()
    assert grads(xs) == [Fraction(2, 3), Fraction(5, 7)]


@pytest.mark.parametrize(("loss", "inputs", "targets", "each", "gradient"), [
    (losses.l1_loss, [3.0, -1.5, 2.0], [1.0, 0.0, 2.0], [2.0, 1.5, 0.0], [1.0, -1.0, 0.0]),
    (losses.huber_loss, [0.5, 4.0, -2.0], [0.0, 1.0, 0.0], [0.125, 2.5, 1.5], [0.5, 1.0, -1.0]),
    (partial(losses.huber_loss, delta=2.0), [1.0, 5.0, -3.0], [0.0, 1.0, 0.0], [0.5, 6.0, 4.0], [1.0, 2.0, -2.0]),
    (hinge_loss, [0.5, 2.0, -0.25, -3.0], [1, 1, -1, 1], [0.5, 0.0, 0.75, 4.0], [-1.0, 0.0, 1.0, -1.0]),
])  # fmt: skip
def test_losses_of_numbers_are_those_of_their_formulas(loss, inputs, targets, each, gradient):
    xs = values(inputs)
    assert numbers(loss(xs, targets, reduction="none")) == each
    loss(xs, targets, reduction="sum").backward()
    assert grads(xs) == gradient


@pytest.mark.usefixtures("two_derivatives")
@pytest.mark.parametrize(("loss", "targets", "message"), [
    (hinge_loss, [0, 0.5, 2, NAN], r"-1 or \+1; for 0 and 1, use binary_cross"),
    (binary_cross_entropy_with_logits, [-1, 2, NAN, Value(-1.0)], "a number from 0 to 1; .* cross_entropy"),
])  # fmt: skip
def test_targets_that_a_loss_has_no_meaning_for_are_refused(loss, targets, message):
    for target in targets:
        with pytest.raises(ValueError, match=rf"target\[0\] is .*: {loss.__name__} expects {message}"):
            loss([Value(1.0)], [target])
    score, target = Level1(Value(0.25)), Level1(Value(1.0))  # which only an outer derivative knows
    assert loss(score, target).data.data > 0


def test_a_softmax_of_infinity_is_nan_as_in_pytorch():
    for data in numbers(softmax([INF, 0.0])) + numbers(log_softmax([INF, 0.0])) + [cross_entropy([INF, 0.0], 1).data]:
        assert math.isnan(data)


TINY = math.exp(-40)


@pytest.mark.parametrize(("xs", "target", "loss", "grad"), [
    ([1e308], [0], 1e308, [1.0]), ([40.0], [1], TINY, [-TINY]), ([-40.0], [0], TINY, [TINY]),  # the binary one
    ([1000.0, -1000.0], 0, 0.0, [0.0, 0.0]), ([1000.0, -1000.0], 1, 2000.0, [1.0, -1.0]),
    ([-1000.0, -1000.0], 1, math.log(2), [0.5, -0.5]), ([1e308, 0.0], 1, 1e308, [1.0, -1.0]),
    ([-math.inf, 0.0], 1, 0.0, [0.0, 0.0]), ([-math.inf, 0.0], 0, math.inf, [-1.0, 1.0]),
])  # fmt: skip
def test_cross_entropies_are_exact_at_extreme_logits(xs, target, loss, grad):
    logits, is_binary = values(xs), isinstance(target, list)
    result = (binary_cross_entropy_with_logits if is_binary else cross_entropy)(logits, target)
    result.backward()
    assert [result.data, *grads(logits)] == close([loss, *grad], rel=1e-14 if is_binary else 0, abs=0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy", "smoothed"])
@pytest.mark.parametrize("xs", [[0, NAN, -1000], [NAN, 1, 2], [1000, -1000, NAN], [-INF, NAN], [INF, NAN, NAN, 0.5]])
def test_a_nan_among_the_logits_makes_everything_nan(name, xs, backend):
    of_logits = {
        "softmax": lambda xs: softmax(xs)[0], "log_softmax": lambda xs: log_softmax(xs)[0],
        "logsumexp": micrograd.logsumexp, "cross_entropy": lambda xs: cross_entropy(xs, 0),
        "smoothed": lambda xs: cross_entropy(xs, 0, label_smoothing=0.1),
    }[name]  # fmt: skip
    logits = values(list(map(float, xs)))
    output = of_logits(logits)
    output.backward()
    second = [] if INF in map(abs, xs) else hessian(of_logits)(list(map(float, xs)))
    fast = micrograd.compile(of_logits, ([0.0] * len(xs),), backend=backend)
    compiled, gradient = fast.value_and_grad(xs)
    assert all(map(math.isnan, [output.data, *grads(logits), *flat(second), compiled, *gradient, *fast.map([xs] * 20)]))


def test_cross_entropy_of_ten_classes_is_one_node():
    loss = cross_entropy(values([0.1 * i for i in range(10)]), 3)
    assert history(loss) == [loss]


def test_softmax_of_a_batch_is_that_of_each_example():
    rows = [[0.3, -1.2], [1.0, 0.0]]
    for function in (softmax, log_softmax):
        assert numbers(function(values(rows))) == [numbers(function(values(row))) for row in rows]


def test_log_softmax_keeps_all_digits_that_the_differences_of_its_logits_have():
    assert numbers(softmax(values([0.0, -1000.0]))) == [1.0, 0.0]
    assert numbers(log_softmax(values([0.0, -1000.0]))) == [0.0, -1000.0]
    assert numbers(log_softmax(values([2.0**40, 2.0**40 + 1]))) == numbers(log_softmax(values([0.0, 1.0])))


def test_l2_penalty_is_the_sum_of_the_squares_in_one_node():
    ws = values([1.0, -2.0, 0.5])
    penalty = losses.l2_penalty(w for w in ws)
    penalty.backward()
    assert penalty.data == 5.25
    assert history(penalty) == [penalty]
    assert grads(ws) == [2.0, -4.0, 1.0]
    assert losses.l2_penalty([Value(Fraction(1, 3))]).data == Fraction(1, 9)
    assert losses.l2_penalty([]).data == 0


# Derivatives of higher orders


MASS = 0.9 * 2.0 + 0.1 / 4 * (1.0 + 2.0 + 0.5 + 0.25)  # of a smoothed target with weights
SMOOTHED = {"weight": [1.0, 2.0, 0.5, 0.25], "label_smoothing": 0.1}


def textbook_logsumexp(xs):
    return micrograd.sum([x.exp() for x in xs]).log()


@pytest.mark.parametrize(("f", "textbook"), [
    (lambda xs: cross_entropy(xs, 0), textbook_logsumexp),
    (lambda xs: cross_entropy(xs, 1, **SMOOTHED), lambda xs: MASS * textbook_logsumexp(xs)),
    *[(lambda xs, k=k: log_softmax(xs)[k], lambda xs: -textbook_logsumexp(xs)) for k in range(4)],
    (lambda xs: softmax(xs)[1], lambda xs: (xs[1] - textbook_logsumexp(xs)).exp()),
    (lambda xs: binary_cross_entropy_with_logits(xs[1], xs[0]), lambda xs: (1 + xs[1].exp()).log() - xs[0] * xs[1]),
])  # fmt: skip
def test_second_derivatives_are_those_of_the_formulas_up_to_linear_terms(f, textbook):
    for row, expected in zip(hessian(f)(LOGITS["ordinary"]), hessian(textbook)(LOGITS["ordinary"]), strict=True):
        assert row == close(expected, rel=1e-12, abs=1e-15)


def test_derivatives_of_cross_entropy_are_right_at_extreme_logits_and_of_the_third_order():
    assert hessian(lambda xs: cross_entropy(xs, 1))([1000.0, -1000.0]) == [[0.0, 0.0], [0.0, 0.0]]
    p = 1 / (1 + math.exp(-0.4))  # the derivative of log(1 + e^x)
    third = grad(grad(grad(lambda x: cross_entropy([x, 0.0], 1))))
    assert third(0.4) == close(p * (1 - p) * (1 - 2 * p), rel=1e-13)


def test_logits_of_several_levels_become_nodes_of_the_innermost():
    mixed = grad(lambda w: grad(lambda x: cross_entropy([x * w, w, 0.0], 0))(2.0))(0.5)
    a, b = math.exp(1.0), math.exp(0.5)  # d/dw of w (p - 1), with p = e^(2w) / (e^(2w) + e^w + 1)
    p, slope = a / (a + b + 1), a * (b + 2) / (a + b + 1) ** 2
    assert mixed == close(p - 1 + 0.5 * slope, rel=1e-14)


# Shapes, reductions, errors


def test_the_losses_of_a_nested_list_come_in_its_shape_and_one_of_a_number_is_its_own_reduction():
    loss = mse_loss(values([[1.0, 2.0], [3.0, 4.0]]), [[0.0, 0.0], [0.0, 0.0]], reduction="none")
    assert numbers(loss) == [[1.0, 4.0], [9.0, 16.0]]
    assert mse_loss([[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]).data == 7.5
    for reduction in ("mean", "sum", "none"):
        assert mse_loss(Value(3.0), 1, reduction=reduction).data == 4.0
        assert cross_entropy(values([0.0, 0.0]), 0, reduction=reduction).data == close(math.log(2))


OF_NUMBERS = mse_loss, losses.l1_loss, losses.huber_loss, hinge_loss, binary_cross_entropy_with_logits
OF_CLASSES = cross_entropy, losses.nll_loss
OF_LOGITS = *OF_CLASSES, lambda logits, _: softmax(logits), lambda logits, _: log_softmax(logits)
NO_NUMBER = "(prediction|target) is '.*': expected a number, or a list or an array of numbers"


@pytest.mark.parametrize(("of", "input", "target", "error", "message"), [
    (OF_NUMBERS, [1.0, 1.0], [1], ValueError, "the prediction is a list of 2, but its target is a list of 1$"),
    (OF_NUMBERS, [1.0], 1, ValueError, "the prediction is a list of 1, but its target is a single number$"),
    (OF_NUMBERS, 1.0, [1], ValueError, r"single .*, but .* a list of 1: give the target as 1, not \[1\]"),
    (OF_NUMBERS, [[1.0]] * 2, [1, 1], ValueError, "the prediction is a list of 1, but its target is a single num"),
    (OF_NUMBERS, [], [], ValueError, "at least one value"),
    (OF_NUMBERS, values([1.0, 2.0]), {1.0, 2.0}, TypeError, "is of type set: expected a list or an array"),
    (OF_NUMBERS, "ab", "cd", TypeError, NO_NUMBER), (OF_NUMBERS, [Value(1.0)], "1", TypeError, NO_NUMBER),
    (OF_CLASSES, [0.0, 0.0], 2, ValueError, "target index is 2: expected a whole number from 0 to 1"),
    (OF_CLASSES, [0.0, 0.0], np.array([0, 1]), ValueError, r"the target index is array\(\[0, 1\]\): expected a wh"),
    (OF_CLASSES, [[0.0, 0.0]], 1, ValueError, "1 examples need a list"),
    (OF_CLASSES, [[0.0, 0.0]], [1, 1], ValueError, "1 examples need a list"),
    (OF_CLASSES, [[1.0, 2.0]], "1", TypeError, NO_NUMBER),
    (OF_CLASSES, [[1.0, 2.0], 3.0], [0, 1], TypeError, r"a list with a number for each class, not float: 3\.0"),
    (OF_LOGITS, Value(1.0), 0, TypeError, "a number for each class, not Value"),
    (OF_LOGITS, [], 0, ValueError, "not an empty one"), (OF_LOGITS, [[]], [0], ValueError, "not an empty one"),
    (OF_LOGITS, "ab", [0, 1], TypeError, NO_NUMBER),
    (OF_LOGITS, {0: 1.0, 1: 2.0}, 0, TypeError, "is of type dict: expected a list or an array"),
])  # fmt: skip
def test_inputs_and_targets_that_do_not_fit_are_errors(of, input, target, error, message):
    for loss in of:
        with pytest.raises(error, match=message):
            loss(input, target)


# Targets as arguments of compiled code

ROWS = [[0.3, -1.2, 2.5], [1.0, 0.0, -1.0]]
TARGETS = {
    "mse_loss": [(0.3, [1.5, -1.0]), ([0.3, -1.2], [[0, 1.5], [-2.0, 1.0]]), (ROWS, [[[0.5] * 3, [1.0, 2.0, 3.0]]])],
    "l1_loss": [(0.3, [1.5, 0.3]), ([0.3, -1.2], [[0, 1.5], [0.3, 1.0]])],
    "huber_loss": [(0.3, [1.5, 1.3, 0.5]), ([0.3, -1.2], [[0, 1.5], [0.3, -0.2]])],
    "hinge_loss": [(0.3, [1, -1]), ([0.5, -2.0], [[1, 1], [-1, 1]])],
    "binary_cross_entropy_with_logits": [(0.3, [0, 1, 0.25]), ([0.3, -1.2], [[0, 1], [0.75, 0.5]])],
    "cross_entropy": [(LOGITS["ordinary"], [0, 1, 2, 3]), (LOGITS["one"], [0]), (ROWS, [[2, 0], [1, 1]])],
    "nll_loss": [(LOGITS["ordinary"], [0, 1, 2, 3]), (LOGITS["one"], [0]), (ROWS, [[2, 0], [1, 1]])],
}
"""Of each loss, inputs and some targets that they may have."""


def test_every_loss_of_a_target_is_compiled_below():
    taking_targets = {name for name in losses.__all__ if "target" in str(inspect.signature(getattr(losses, name)))}
    assert TARGETS.keys() == taking_targets


WEIGHTED = {"weight": [0.5, 2.0, 0.25], "label_smoothing": 0.1}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in TARGETS), ("cross_entropy", WEIGHTED)])
def test_a_target_may_be_an_argument_of_compiled_code(name, options, reduction, backend):
    def loss(x, y):
        return getattr(losses, name)(x, y, reduction=reduction, **options)

    for input, targets in [(ROWS, [[0, 1], [2, 2], [1, 0]])] if options else TARGETS[name]:
        fast = micrograd.compile(loss, (input, targets[0]), backend=backend)
        for target in targets:
            x, y = values([input, target])
            eager = loss(x, y)
            eager.backward()
            value, gradients = fast.value_and_grad(input, target)
            assert value == close(eager.data, rel=1e-12)
            assert flat(gradients) == close(flat(grads([x, y])), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(("loss", "options", "message"), [
    (cross_entropy, {"weight": [1.0]}, "weight has 1 numbers: expected 2, one for each class"),
    (cross_entropy, {"weight": []}, "weight has 0 numbers"),
    (cross_entropy, {"weight": [1.0, -1.0]}, r"weight\[1\] is -1.0: expected a finite number, 0 or greater"),
    (cross_entropy, {"label_smoothing": 1.5}, "label_smoothing is 1.5: expected a number from 0 to 1"),
    (cross_entropy, {"label_smoothing": -0.1}, "label_smoothing is -0.1"),
    *[(losses.huber_loss, {"delta": delta}, f"delta is {delta:g}") for delta in (0, -1.0, math.inf)],
    *[
        (loss, {"reduction": "average"}, "reduction is 'average': expected 'mean', 'sum' or 'none'")
        for loss in (*OF_NUMBERS, *OF_CLASSES)
    ],
])  # fmt: skip
def test_invalid_options_and_those_without_a_name_are_errors(loss, options, message):
    target = 1 if loss in OF_CLASSES else [1.0, 1.0]
    with pytest.raises(ValueError, match=message):
        loss(values([0.0, 0.0]), target, **options)
    with pytest.raises(TypeError, match="positional"):
        loss(values([0.0, 0.0]), target, *options.values())


# PyTorch


def assert_agrees_with_pytorch(name, input, target, **options):
    """The loss, the gradient of the input, and each loss."""
    torch, given = pytest.importorskip("torch"), dict(options)
    ours = values(input)
    loss = getattr(losses, name)(ours, target, **options)
    loss.backward()
    theirs = torch.tensor(input, dtype=torch.float64, requires_grad=True)
    if options.get("weight"):
        options["weight"] = torch.tensor(options["weight"], dtype=torch.float64)
    classes = name in ("cross_entropy", "nll_loss")
    targets, function = torch.tensor(target, dtype=int if classes else float), getattr(torch.nn.functional, name)
    expected = function(theirs, targets, **options)
    expected.backward()
    assert loss.data == close(expected.item(), rel=1e-12, abs=1e-12, nan_ok=True)
    for row, expected_row in zip(grads(ours), theirs.grad.tolist(), strict=True):
        assert row == close(expected_row, rel=1e-12, abs=1e-12, nan_ok=True)
    each = getattr(losses, name)(ours, target, **given | {"reduction": "none"})
    expected = function(theirs, targets, **options | {"reduction": "none"})
    assert flat(numbers(each)) == close(expected.flatten().tolist(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy_with_logits"])
def test_losses_of_numbers_agree_with_pytorch(name, reduction):
    rng = random.Random(1)
    input = [[rng.gauss(0, 3) for _ in range(3)] for _ in range(4)] + [[1000.0, -1000.0, 0.0]] * 2
    target = [[rng.random() for _ in range(3)] for _ in range(4)] + [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    assert_agrees_with_pytorch(name, input, target, reduction=reduction)


CLASS_OPTIONS = [
    {"weight": weight, "label_smoothing": smoothing}
    for weight in (None, [1.0, 1.0, 1.0], [0.5, 2.0, 0.0])
    for smoothing in (0.0, 0.1, 0.75, 1.0)
]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    ("name", "options"), [("nll_loss", {}), *[("cross_entropy", options) for options in CLASS_OPTIONS]]
)
def test_losses_of_classes_agree_with_pytorch_weighted_and_smoothed_too(name, options, reduction):
    rng = random.Random(2)
    rows = [[rng.gauss(0, 3) for _ in range(3)] for _ in range(6)]
    rows += [[1000.0, -1000.0, 0.0], [-1000.0, -1000.0, -1001.0], [1000.0, -1000.0, 0.0]]
    targets = [0, 1, 2, 0, 1, 2, 0, 1, 2]
    if not any(options.values()):
        rows, targets = [*rows, [1000.0, -1000.0, 0.0], [-math.inf, 0.0, 1.0]], [*targets, 1, 1]
    assert_agrees_with_pytorch(name, rows, targets, reduction=reduction, **options)


@pytest.mark.parametrize("name", LOGITS)
@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_softmax_and_its_logarithm_agree_with_pytorch(function, name):
    torch = pytest.importorskip("torch")
    ours = values(LOGITS[name])
    outputs = getattr(losses, function)(ours)
    theirs = torch.tensor(LOGITS[name], dtype=torch.float64, requires_grad=True)
    expected = getattr(torch, function)(theirs, dim=0)
    assert numbers(outputs) == close(expected.tolist(), rel=1e-12, abs=1e-15)
    outputs[-1].backward()
    expected[-1].backward()
    assert grads(ours) == close(theirs.grad.tolist(), rel=1e-12, abs=1e-15)
