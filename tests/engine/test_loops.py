"""`scan`, in the engine and compiled, against the same loop written out."""

import pytest

from micrograd import Value, grad, hvp, scan
from tests.helpers import Table


def test_the_state_goes_from_round_to_round_and_ys_are_collected():
    assert scan(lambda s, x: (s + x, s * x), 1, [2, 3, 4]) == (10, [2, 9, 24])
    assert scan(lambda s, x: (2 * s, x), 1, length=5) == (32, [None] * 5)


def test_states_and_xs_may_be_nested():
    def step(state, x):
        return {"sum": state["sum"] + x["a"][0] * x["b"], "last": [x["b"]]}, None

    xs, sums = {"a": [[1], [2]], "b": [3, 4]}, {"sum": 11, "last": [4]}
    assert scan(step, {"sum": 0, "last": [0]}, xs) == (sums, [None, None])
    assert scan(lambda s, row: (s + row[0] * row[1], None), 0.0, Table([[1.0, 3.0], [2.0, 4.0]]))[0] == 11.0


@pytest.mark.parametrize("nothing", [{"xs": []}, {"length": 0}, {"xs": {"a": [], "b": []}}])
def test_no_rounds_return_the_state_itself(nothing):
    state = [Value(1.0)]
    found, ys = scan(lambda s, x: 1 / 0, state, **nothing)
    assert (found is state, ys) == (True, [])


ROUNDS = "scan.. needs one number of iterations, but got "


@pytest.mark.parametrize(("step", "options", "error", "message"), [
    (None, {}, ValueError, f"{ROUNDS}neither"),
    (None, {"xs": [1, 2], "length": 3}, ValueError, rf"{ROUNDS}\[2, 3\]"),
    (None, {"xs": {"a": [1], "b": [1, 2]}}, ValueError, rf"{ROUNDS}\[1, 2\]"),
    (None, {"xs": {1, 2}}, TypeError, "xs is of type set"),
    (None, {"xs": iter([1, 2])}, TypeError, "xs is of type list_iterator: expected a list"),
    (None, {"length": -1}, ValueError, "length is -1: expected an int, 0 or greater"),
    (None, {"length": 2.0}, ValueError, "length is 2.0: expected an int, 0 or greater"),
    *[(lambda s, x, y=y: y, {"length": 3}, TypeError, "must return a pair") for y in (5, [1, 2], (1, 2, 3))],
    (lambda s, x: (s, s), {"length": 3, "until": lambda s: s > 60}, TypeError, "must return .state, None."),
])  # fmt: skip
def test_a_step_or_rounds_that_do_not_fit_are_an_error(step, options, error, message):
    with pytest.raises(error, match=message):
        scan(step or (lambda s, x: (s, x)), 1, **options)


def test_until_stops_before_the_round_in_which_it_holds():
    assert scan(lambda s, x: (2 * s, None), 1, length=100, until=lambda s: s > 60) == (64, None)
    assert scan(lambda s, x: (2 * s, None), 1, length=3, until=lambda s: s > 60) == (8, None)


def test_an_error_names_its_round():
    with pytest.raises(ValueError, match="log") as caught:
        scan(lambda s, x: (s - 1, s.log()), Value(700.0), length=1000)
    assert caught.value.__notes__ == ["in iteration 700 of scan(), counted from 0"]


def test_captured_values_get_gradients_from_all_rounds():
    w = Value(2.0)
    state, _ = scan(lambda s, x: (w * s + x, None), 1.0, [1.0, 1.0])
    state.backward()
    assert (state.data, w.grad) == (7.0, 5.0)  # w ** 2 + w + 1


def test_derivatives_of_any_order():
    def f(x):
        return scan(lambda s, _: (s * x, None), 1.0, length=4)[0]

    assert grad(grad(f))(2.0) == hvp(f)(2.0, 1.0) == 48.0
