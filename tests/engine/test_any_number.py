"""Numbers of types that users register: of many digits, intervals, decimals, and numbers with an error."""

import math
import random
from decimal import Decimal

import mpmath
import pytest
from mpmath import iv, mp, mpf

import micrograd
from micrograd import Value, grad, gradcheck, hessian, hvp, jacobian, losses, nn, optim, scalar, viz, where
from tests.helpers import eager, every_point
from tests.operations import OPERATIONS

DIGITS = 50
REAL = {
    "lgamma": lambda x: mp.loggamma(x).real, "exp2": lambda x: mpf(2) ** x, "log2": lambda x: mp.log(x, 2),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
}  # fmt: skip
OF_INTERVALS = {name: getattr(iv, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tan")}
OF_INTERVALS["log1p"] = lambda x: iv.log(1 + x)
OF_DECIMALS = {"sqrt": Decimal.sqrt, "exp": Decimal.exp, "log": Decimal.ln}


def hull(a, b):
    a, b = iv.mpf(a), iv.mpf(b)
    return iv.mpf([min(a.a, b.a), max(a.b, b.b)])


@pytest.fixture(autouse=True)
def kinds(no_kinds):
    """The types of this file, registered for a test alone."""
    scalar.register(mpf, mpmath)
    scalar.register(mpf, REAL)
    scalar.register(iv.mpf, OF_INTERVALS | {"hull": hull})
    scalar.register(Decimal, OF_DECIMALS)


# Fifty digits


@every_point
def test_values_and_gradients_have_fifty_digits(operation, point):
    with mp.workdps(DIGITS):
        numbers = [mpf(x) + mpf(x) / 3 * (operation.smooth(*(x * 4 / 3 for x in point))) for x in point]
        value, gradients = eager(lambda xs: operation.apply(*xs), numbers)
        exact = operation.gradient(*numbers)
        pairs = [(value, operation.value(*numbers)), *zip(gradients, exact if len(point) > 1 else [exact], strict=True)]
        for ours, right in pairs:
            assert abs(ours - right) <= mpf(10) ** (3 - DIGITS) * max(abs(right), mpf("1e-3"))


def test_jacobians_hessians_and_their_products_have_fifty_digits():
    with mp.workdps(DIGITS):
        x = [mpf(1) / 3, mpf(2) / 3]
        third = mpf(1) / 3
        assert jacobian(lambda v: [v[0] * v[1], v[1] / v[0]])(x) == [[x[1], x[0]], [-x[1] / x[0] ** 2, 1 / x[0]]]
        assert hessian(lambda v: v[0] * v[0] * v[1])(x) == [[2 * x[1], 2 * x[0]], [2 * x[0], 0]]
        product = hvp(lambda v: v[0] * v[0] * v[1])(x, [third, third])
        assert product == [2 * x[1] * third + 2 * x[0] * third, 2 * third * third]
        assert gradcheck(lambda x: x.sin(), third)


# Intervals

RNG = random.Random(0)
OF_ARITHMETIC = "sigmoid", "softplus", "silu", "leaky_relu", "relu", "abs", "neg", "x", "where", "dot", "sum", "mean"
IN_INTERVALS = [
    operation for operation in OPERATIONS
    if operation.name.split("(")[0].split()[0] in (*OF_INTERVALS, *OF_ARITHMETIC)
    and {"//", "%"}.isdisjoint(operation.name.split())
]  # fmt: skip


@pytest.mark.parametrize("operation", IN_INTERVALS, ids=lambda operation: operation.name)
def test_intervals_contain_the_value_and_the_derivatives(operation):
    tried = 0
    while tried < 1000 / len(IN_INTERVALS):
        point = [RNG.uniform(-3, 3) for _ in range(operation.arity)]
        if not operation.smooth(*point):
            continue
        width = RNG.choice([0.0, 1e-9, 1e-3])
        intervals = [iv.mpf([x - width, x + width]) for x in point]
        value, gradients = eager(lambda xs: operation.apply(*xs), intervals)
        exact = operation.gradient(*map(mpf, point))
        rights = [operation.value(*map(mpf, point)), *(exact if len(point) > 1 else [exact])]
        assert all(right in iv.mpf(found) for found, right in zip([value, *gradients], rights, strict=True))
        tried += 1


def test_an_undecided_comparison_takes_the_hull_of_both_branches():
    around_0 = iv.mpf([-1, 2])
    assert grad(abs)(around_0) == iv.mpf([-1, 1])
    x = Value(around_0)
    y = x.relu()
    y.backward()
    assert (y.data, x.grad) == (around_0, iv.mpf([0, 1]))
    assert grad(grad(lambda x: where(x > 0, x * x, 3 * x)))(around_0) == iv.mpf([0, 2])  # 2 above 0, 0 below
    assert grad(lambda x: x.leaky_relu(0.25))(around_0) == iv.mpf([0.25, 1])
    assert grad(lambda x: grad(lambda y: where(y > 0, x * y, 3 * x) * y)(around_0))(iv.mpf(1)) == iv.mpf([-2, 7])


@pytest.mark.parametrize(("f", "value", "gradients"), [
    (micrograd.maximum, [0, 3], ([0, 1], [0, 1])),
    (lambda x, y: x.minimum(y), [0, 3], ([0, 1], [0, 1])),
    (lambda x, y: x.maximum(y + 9), [9, 12], ([0, 0], [1, 1])),
    (lambda x, y: x.maximum(x * 1), [0, 3], ([0, 2], [0, 0])),  # equal as intervals, not as numbers
    (lambda x, y: x.clip(1, 2), [0, 3], ([0, 1], [0, 0])),
    (lambda x, y: micrograd.maximum(x, y, -1), [0, 3], ([0, "inf"], [0, "inf"])),
])  # fmt: skip
def test_intervals_of_which_either_may_be_the_larger_take_the_hull(f, value, gradients):
    x, y = Value(iv.mpf([0, 3])), Value(iv.mpf([0, 3]))
    result = f(x, y)
    result.backward()
    assert (result.data, x.grad, y.grad) == (iv.mpf(value), *map(iv.mpf, gradients))


def test_a_comparison_that_nothing_decides_is_an_error():
    with pytest.raises(TypeError, match="a comparison gave None: register a 'hull' of both branches"):
        scalar.where(None, 1.0, 2.0)
    assert scalar.where(Decimal(0), 1.0, 2.0) == 2.0  # as any object that is true or false
    undecided = iv.mpf([-1, 1]) > 0
    assert (undecided | True, undecided & False) == (True, False)
    with pytest.raises(ValueError, match=r"a comparison is undecided: where\(\) takes the hull"):
        bool(undecided)


def test_intervals_on_the_left_of_a_value_leave_the_operation_to_it():
    x = Value(iv.mpf([1, 2]))
    for result in (iv.mpf(3) + x, iv.mpf(5) - x, iv.mpf(3) * x, iv.mpf(3) / x, iv.mpf(3) ** x):
        assert isinstance(result, Value)
    assert grad(grad(lambda x: x.exp() / x))(iv.mpf([1, 1])).delta < 1e-12


# Decimals, and numbers with an error


def test_decimals_stay_decimals():
    x, y = Value(Decimal("0.1")), Value(Decimal("0.2"))
    total = x + y + Decimal("0.3") * x / 2
    total.backward()
    assert (total.data, x.grad, y.grad) == (Decimal("0.315"), Decimal("1.15"), Decimal(1))
    assert grad(lambda x: x.sigmoid())(Decimal(0)) == Decimal("0.25")
    assert grad(grad(lambda x: x.log()))(Decimal(3)) == -1 / Decimal(9)


@pytest.mark.parametrize("kind", [mpf, Decimal])
@pytest.mark.parametrize("optimizer", [
    lambda ps, d: optim.SGD(ps, d("0.1"), momentum=d("0.5"), dampening=d("0.25"), nesterov=False),
    lambda ps, d: optim.SGD(ps, 0.1, momentum=0.5, nesterov=True, clip_grad_norm=0.25),
    lambda ps, d: optim.AdamW(ps),
    lambda ps, d: optim.Adam(ps, d("0.1"), (d("0.9"), d("0.999")), d("1e-8")),
    lambda ps, d: optim.RMSprop(ps, d("0.1"), d("0.99"), d("1e-8")),
])  # fmt: skip
def test_networks_and_optimizers_compute_with_the_kind(optimizer, kind):
    def trained(kind):
        model = nn.MLP(2, [3, 1], activation="sigmoid", rng=0)
        for parameter in model.parameters():
            parameter.data = kind(str(round(parameter.data, 3)))
        rule = optimizer(model.parameters(), kind)
        for _ in range(3):
            loss = losses.mse_loss([model([kind(1), kind("0.5")])], [kind(1)])
            loss.backward()
            rule.step()
            rule.zero_grad()
        return model, rule

    (model, rule), (floats, _) = trained(kind), trained(float)
    for name, number in model.state_dict().items():
        assert type(number) is kind
        assert float(number) == pytest.approx(floats.state_dict()[name], rel=1e-12)
    again = optimizer(nn.MLP(2, [3, 1]).parameters(), kind)
    again.load_state_dict(rule.state_dict())
    assert again.state_dict() == rule.state_dict()
    model.zero_grad()
    assert all(parameter.grad == 0 and type(parameter.grad) is kind for parameter in model.parameters())
    model.parameters()[0].data = kind(1)  # which equals a float
    for parameter in model.parameters()[1:]:
        parameter.data = 0.5
    with pytest.raises(ValueError, match=r"neurons.0.w.0 is .*1.*expected a finite float; pickle.dump.* saves any num"):
        nn.save(model, "unwritten.json")


@pytest.mark.parametrize("f", [
    lambda x: x.leaky_relu(), lambda x: Value(scalar.leaky_relu(x.data)), lambda x: x.clip(-0.1, math.inf),
    lambda x: losses.huber_loss([x], [1], delta=0.1),
    lambda x: losses.cross_entropy([x, x * 0], 0, label_smoothing=0.5, weight=[0.5, 0.25]),
])  # fmt: skip
def test_a_float_that_is_given_beside_decimals_is_the_decimal_as_it_is_written(f):
    results = []
    for kind in Decimal, float:
        x = Value(kind("-2"))
        result = f(x)
        result.backward()
        assert {type(result.data), type(x.grad)} == {kind}
        results.append([float(result.data), float(x.grad)])
    assert results[0] == pytest.approx(results[1], rel=1e-15)


@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_functions_of_two_take_numbers_beside_values_of_an_enclosing_derivative(name):
    def slope(kind):
        return grad(lambda v: grad(lambda u: getattr(u, name)(v))(kind("0.3")))(kind(2))

    assert float(slope(mpmath.mpf)) == pytest.approx(slope(float), rel=1e-14)


# What is refused


def test_a_function_that_is_missing_is_named_with_how_to_add_it():
    with pytest.raises(TypeError, match=r"Decimal has no sin: add it, as in micrograd.scalar.register\(Decimal, {'sin"):
        Value(Decimal(1)).sin()
    with pytest.raises(TypeError, match="Decimal has no polygamma: add it"):  # whose series has the digits of floats
        Value(Decimal(1)).digamma()
    scalar.register(Decimal, {"sin": lambda x: x})
    assert Value(Decimal(1)).sin().data == 1


def test_mixing_kinds_is_the_error_of_the_kind():
    for operation in (lambda v: v * 0.5, lambda v: 0.5 * v, lambda v: v + Value(0.5)):
        with pytest.raises(TypeError, match="unsupported operand"):
            operation(Value(Decimal(1)))


def test_constants_beside_a_number_have_all_its_digits():
    with mp.workdps(DIGITS):
        assert grad(lambda v: 2**v)(mpf(3)) == 8 * mp.log(2)
        assert (Value(mpf("inf")) - 1).data == mpf("inf")
        for f in (micrograd.maximum, lambda x, y: where(x > 0, y, x), lambda x, y: micrograd.take([x, y], 1)):
            assert f(Value(mpf(1)), 2).log().data == mp.log(2)
        assert abs(micrograd.logsumexp([mpf(1), 3, 2]).data - mp.log(mp.e + mp.e**2 + mp.e**3)) < 1e-48


def test_a_type_that_is_registered_again_keeps_its_operators():
    names = ("__add__", "__mul__", "__lt__", "__ge__")
    before = [getattr(iv.mpf, name) for name in names]
    scalar.register(iv.mpf, OF_INTERVALS | {"hull": hull})
    assert [getattr(iv.mpf, name) for name in names] == before


@pytest.mark.parametrize(("kind", "functions", "error", "message"), [
    *[
        (kind, mpmath, TypeError, "register.. expects a type of numbers, such as decimal.Decimal, not")
        for kind in (float, Value, "Decimal", Decimal(1), str, object, list)
    ],
    (Decimal, {"ln": Decimal.ln}, ValueError, "'ln' is <method 'ln' .*: expected functions, named exp, "),
    (Decimal, {"log": 3}, ValueError, "'log' is 3: expected functions, named exp, "),
    *[(Decimal, of, TypeError, f"{of} has no functions: expected a module, a class or a d") for of in (None, {})],
])  # fmt: skip
def test_only_a_type_of_numbers_and_functions_of_known_names_are_registered(kind, functions, error, message):
    with pytest.raises(error, match=message):
        scalar.register(kind, functions)


@pytest.mark.parametrize("is_given", [False, True])
def test_compiled_code_refuses_parameters_of_a_kind(is_given):
    weight = Value(mpf(2), label="weight")
    with pytest.raises(TypeError, match="weight.*compiled code computes with floats: .* to compute with mpf"):
        micrograd.compile(lambda x: x * weight, (1.0,), parameters=[weight] if is_given else None)
    with pytest.raises(TypeError, match="0.5.*compiled code computes with floats: .* to compute with Decimal"):
        micrograd.compile(lambda xs: xs[1], ([1.0, Decimal("0.5")],))


def test_a_drawing_shows_an_undecided_choice_and_a_page_says_that_it_computes_with_floats(tmp_path):
    x = Value(iv.mpf([-1, 2]))
    y = where(x > 0, x, 2 * x)
    drawing = viz.to_svg(y)
    assert ("where" in drawing, "[−1.0, 2.0]" in drawing) == (True, True)
    for number, shown in (Decimal("0.125"), "0.125"), (mpf(1) / 3, "0.3333"), (mpf(-2), "−2.0"):
        assert shown in viz.to_svg(Value(number) * 2)
    with pytest.raises(TypeError, match=r"^a page computes with floats, and \[−1\.0, 2\.0\] cannot become one: draw"):
        viz.save_html(y, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    viz.save_html(Value(float("nan")) * 2.0, tmp_path / "page.html")
