"""`Value`: every operation, the guarantees of `backward`, what Python and NumPy expect of a number, and all errors."""

import ast
import builtins
import copy
import gc
import inspect
import math
import multiprocessing
import operator
import pickle
import re
import subprocess
import sys
import threading
import time
import weakref
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import micrograd
from micrograd import Value, dot, maximum, mean, minimum, nn, promote, reductions, scalar, sum, take, where
from micrograd.core import errors
from micrograd.core.errors import WHERE_HINT
from micrograd.functional import grad, hessian, jacobian
from micrograd.functions import Functions
from tests.helpers import Table, each_point, own
from tests.operations import FUNCTIONS, FUSED, OPERATIONS, OPERATORS

NAN, INF = math.nan, math.inf
THIRD = Fraction(1, 3)
ALIASES = {f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
NO_NUMBERS = (
    np.array([1.0]), np.array(1j), np.dtype("f8"), np.complex64(1), np.str_("1"), np.timedelta64(1, "s"), np.ma.masked,
)  # fmt: skip

Level1 = type("Level1", (Value,), {"__slots__": (), "_level": 1})
Level2 = type("Level2", (Value,), {"__slots__": (), "_level": 2})

NAME = operator.attrgetter("name")


def gradients(function, *numbers):
    """The gradient of the function of Values at the numbers."""
    values = [Value(number) for number in numbers]
    function(*values).backward()
    return [value.grad for value in values]


def failing(x, error):
    """An operation whose derivative raises."""

    def _backward(grad):
        raise error

    return Value(x.data, (x,), "failing", _backward)


class TestTheTableOfOperations:
    @each_point(edges=True)
    def test_the_value_is_right_and_the_gradient_the_closed_form(self, operation, point):
        assert operation.apply(*map(Value, point)).data == pytest.approx(operation.exact_value(point), rel=1e-15, abs=0)
        expected = operation.exact_gradient(point)
        assert gradients(operation.apply, *point) == pytest.approx(expected, rel=2e-15, abs=0)

    def test_the_table_covers_every_method_and_function(self, monkeypatch):
        """Runs the table and sees which are called; methods that are not operations are listed here."""
        others = {
            "__init__", "__repr__", "__format__", "__bool__", "__reduce__", "__float__", "__int__",
            "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__",
            "__floor__", "__divmod__", "__rdivmod__", "backward", "__annotate_func__",
        }  # fmt: skip
        kinds = Functions, Value
        home = {name: kind for kind in kinds for name, member in vars(kind).items() if inspect.isfunction(member)}
        methods = {name for name in home if name.startswith("__") or not name.startswith("_")} - others
        called = set()

        def recorded(name, method):
            def record(*args):
                called.add(name)
                return method(*args)

            return record

        for name in methods:
            monkeypatch.setattr(home[name], name, recorded(name, vars(home[name])[name]))
        results = [operation.apply(*map(Value, operation.points[0])) for operation in OPERATIONS]
        assert methods - called == {*ALIASES, "arctan2"}
        functions = set(reductions.__all__)
        nodes = {node._op for result in results for node in result._topological_order()[0]}
        assert functions <= nodes
        assert functions <= {operation.name.split()[0] for operation in FUNCTIONS + FUSED}


class TestANode:
    def test_a_leaf_has_a_number_and_no_history(self):
        v = Value(2.0)
        assert (v.data, v.grad, v.label, v._prev, v._op, v._is_constant) == (2.0, 0.0, "", (), "", False)
        v._backward(1.0)  # does nothing, so that a loop of one's own may call it
        assert v.grad == 0.0

    @pytest.mark.parametrize("operation", OPERATORS, ids=NAME)
    def test_a_number_beside_a_value_becomes_a_leaf_in_its_place(self, operation):
        a, b = operation.points[0]
        right, left = operation.apply(Value(a), b), operation.apply(a, Value(b))
        for result in (right, left):
            assert [type(operand) for operand in result._prev] == [Value, Value]
            assert [operand.data for operand in result._prev] == [a, b]
            assert result._op == operation.name.split()[1]

    def test_sums_add_any_iterable_from_left_to_right_even_an_empty_one(self):
        assert dot((x for x in (1.0, 2.0)), iter([3.0, 4.0])).data == 11.0
        assert sum(Value(x) for x in (1.0, 2.0)).data == 3.0
        assert mean({"a": 1.0, "b": 2.0}.values()).data == 1.5
        assert [sum([]).data, dot([], []).data, dot([], [], 1.5).data] == [0.0, 0.0, 1.5]
        numbers = [1.0, 1e100, 1.0, -1e100]  # Python's own sum is exact since 3.12
        assert [sum(numbers).data, mean(numbers).data, dot(numbers, [1.0] * 4).data] == [0.0] * 3

    @pytest.mark.usefixtures("two_derivatives")
    def test_promoted_values_are_nodes_of_one_level(self):
        v, tagged, x = Value(2.0), Tagged(3.0), Level1(4.0)
        assert promote() == ()
        assert list(map(id, promote(v, tagged, v))) == [id(v), id(tagged), id(v)]
        promoted = promote(v, x, 5, Fraction(1, 2))
        assert [type(p) for p in promoted] == [Level1] * 4
        assert promoted[0].data is v
        assert promoted[1] is x
        assert [p.data for p in promoted[2:]] == [5, Fraction(1, 2)]
        with pytest.raises(TypeError, match="holds a number .*, not str: 'x'"):
            promote(v, "x")

    def test_the_sum_of_python_begins_with_no_node_of_its_own(self):
        v, w = Value(2.0), Value(3.0)
        total = builtins.sum([v, w])
        assert total.data == 5.0
        assert total._prev[0] is v
        assert total._prev[1] is w
        assert (0.0 + v)._op == "+"


class TestNumericalStability:
    @pytest.mark.parametrize(
        "operation", [each for each in OPERATIONS if each.name not in ("x ** 0", "where", "take")], ids=NAME
    )
    def test_nan_in_any_place_stays_nan(self, operation):
        for place in range(operation.arity):
            point = list(operation.points[0])
            point[place] = NAN
            assert math.isnan(operation.apply(*map(Value, point)).data)

    @pytest.mark.parametrize("x", [1e-310, -1e-310, 0.0, 0, 1.5, INF, NAN])
    def test_the_power_of_0_is_flat_everywhere(self, x):
        assert gradients(lambda x: x**0, x) == [0.0]
        assert grad(grad(lambda x: x**1))(x) == 0.0
        assert grad(grad(grad(lambda x: x**2)))(x) == 0.0

    def test_a_base_with_a_varying_exponent_of_0_has_derivatives_even_if_its_inverse_is_too_large(self):
        assert hessian(lambda p: p[0] ** p[1])([2.0, 0.0])[0] == [0.0, 0.5]
        assert gradients(operator.pow, 1e-309, 0.0) == [0.0, math.log(1e-309)]

    @pytest.mark.parametrize(("nested", "e", "slope"), [
        (1, 0.0, 0.5), (2, 0.0, -0.25), (2, 1.0, 0.5), (3, 0.0, 0.25), (3, 1.0, -0.25), (3, 2.0, 1.0),
    ])  # fmt: skip
    def test_a_derivative_by_the_exponent_goes_through_those_by_the_base(self, nested, e, slope):
        def by_base(e):
            derivative = lambda x: x**e  # noqa: E731
            for _ in range(nested):
                derivative = grad(derivative)
            return derivative(2.0)

        assert grad(by_base)(e) == pytest.approx(slope, rel=1e-14)
        assert micrograd.compile(grad(by_base), (1.5,), backend="python")(e) == pytest.approx(slope, rel=1e-14)


class TestBackward:
    def test_a_second_call_or_a_second_loss_with_shared_nodes_adds_only_to_the_gradients_of_leaves(self):
        x = Value(3.0)
        shared = x * x
        first, second = shared * 2, shared * 5
        for loss, grads in (first, (12.0, 2.0, 1.0)), (first, (24.0, 2.0, 1.0)), (second, (54.0, 5.0, 1.0)):
            loss.backward()
            assert (x.grad, shared.grad, loss.grad) == grads

    def test_it_takes_the_gradient_of_the_result_even_of_a_leaf(self):
        x = Value(3.0)
        x.backward()
        x.backward(0.5)
        assert x.grad == 1.5
        (x * x).backward(0.5)
        (x * x).backward(grad=np.float64(2.0))
        assert x.grad == 1.5 + 3.0 + 12.0
        assert type(x.grad) is float

    def test_the_work_does_not_grow_with_the_number_of_paths(self):
        x = y = Value(1.0)
        for _ in range(1000):
            y = y + y
        y.backward()
        assert x.grad == 2.0**1000

    @pytest.mark.usefixtures("no_collector")
    def test_neither_backward_through_a_long_chain_nor_freeing_it_recurses(self):
        x = y = Value(1.0)
        for _ in range(50_000):
            y = y + x
        y.backward()
        assert (y.data, x.grad) == (50_001.0, 50_001.0)
        first = weakref.ref(x)
        del x, y
        assert first() is None

    @pytest.mark.parametrize("closure", [lambda: None, lambda grad, more: None], ids=["none", "two"])
    def test_an_error_says_that_a_closure_must_take_the_gradient(self, closure):
        x = Value(2.0)
        with pytest.raises(TypeError, match=r"of op\(2\.0\) must take the gradient alone: .*positional"):
            Value(4.0, (x,), "op", closure).backward()
        assert x.grad == 0.0

    def test_an_error_of_a_sum_with_an_old_gradient_blames_no_operation(self):
        x = Value(2.0)
        x.grad = 10**400
        with pytest.raises(OverflowError, match="^int too large to convert to float$"):
            (x * 3).backward()

    def test_a_domain_error_in_a_branch_of_where_names_the_remedy(self):
        remedy = r"choose a safe operand first: f\(where\(condition, x, 1\.0\)\)$"
        for x, branch in ((0.0, lambda x: x.sqrt()), (-1.0, lambda x: x ** Value(2.0))):
            result = where(x > 0, branch(Value(x)), 0.0)
            with pytest.raises((ValueError, ArithmeticError), match=remedy) as caught:
                result.backward()
            assert str(caught.value).count(WHERE_HINT) == 1
        x = Value(0.0)
        result = where(x > 0, where(x > 0, x, 1.0).sqrt(), 0.0)
        result.backward()
        assert (result.data, x.grad) == (0.0, 0.0)

    def test_compiled_code_tells_the_remedy_too(self):
        compiled = micrograd.compile(lambda x: where(x > 0, x.sqrt(), 0.0), (1.0,), backend="python")
        for x in (0.0, -1.0):
            with pytest.raises((ValueError, ArithmeticError), match="choose a safe operand first"):
                compiled.value_and_grad(x)

    def test_a_long_list_of_operands_is_cut_in_the_error(self):
        with pytest.raises(ZeroDivisionError, match=r"failing\(2\.0\) cannot be taken"):
            failing(Value(2.0), ZeroDivisionError("no")).backward()
        for count, end in ((5, r"\)"), (6, r", \.\.\.\)"), (9, r", \.\.\.\)")):
            many = Value(0.0, tuple(Value(float(i)) for i in range(count)), "many")
            with pytest.raises(NotImplementedError, match=rf"many\(0\.0, 1\.0, 2\.0, 3\.0, 4\.0{end} has no"):
                many.backward()

    @pytest.mark.parametrize(
        "error",
        [KeyboardInterrupt(), ValueError("no"), ZeroDivisionError("no"), TypeError("no"), MemoryError(), SystemExit(2)],
        ids=lambda error: type(error).__name__,
    )
    def test_whatever_is_raised_the_leaves_keep_their_gradients(self, error):
        x, y = Value(3.0), Value(4.0)
        x.grad, y.grad = 0.25, -0.5
        loss = failing(x * y, error) + x * y + x + 2.0
        with pytest.raises(type(error)) as caught:
            loss.backward()
        assert isinstance(error, ArithmeticError | ValueError) or caught.value is error
        assert (x.grad, y.grad) == (0.25, -0.5)
        assert (loss._prev[1].grad, loss._prev[1]._prev) == (0.0, ())


class TestThreads:
    def test_a_node_of_two_graphs_gets_the_gradient_of_one_at_a_time(self):
        x = Value(2.0)
        shared = x * 2

        def let_the_other_run(v):
            def _backward(grad):
                other.start()
                other.join(0.2)  # in which it would start from 0 what is half done here, if it were not kept from it
                v.grad += grad

            return Value(v.data, (v,), "let_the_other_run", _backward)

        other = threading.Thread(target=(shared * 5).backward)
        (let_the_other_run(shared) + shared * 3).backward()
        other.join()
        assert x.grad == 2 * 4 + 2 * 5

    def test_an_error_leaves_the_gradients_that_another_thread_has_added_meanwhile(self):
        x = Value(2.0)

        def fail():
            other.start()
            other.join(0.2)
            raise ValueError("no")

        other = threading.Thread(target=(x * 5).backward)
        with pytest.raises(ValueError, match="no"):
            Value(2.0, (x,), "failing", lambda grad: fail()).backward()
        other.join()
        assert x.grad == 5.0

    @pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no process can fork here")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the other thread
    def test_a_process_that_is_forked_while_a_thread_runs_backward_is_not_stuck(self):
        inside, x = threading.Event(), Value(2.0)

        def _backward(grad):
            inside.set()
            time.sleep(0.2)  # while the process forks, or waits
            x.grad += grad

        other = threading.Thread(target=Value(2.0, (x,), "slow", _backward).backward)
        other.start()
        inside.wait()
        process = multiprocessing.get_context("fork").Process(target=(x * 3).backward)
        process.start()
        process.join(120)
        try:
            assert process.exitcode == 0
        finally:
            process.kill()
        other.join()
        assert x.grad == 1.0


class TestMemory:
    @staticmethod
    def graph():
        """A graph with every operation in it."""
        total = sum(operation.apply(*map(Value, operation.points[0])) for operation in OPERATIONS)
        total.backward()
        return total

    @pytest.mark.usefixtures("no_collector")
    def test_a_graph_is_freed_at_once(self):
        graph = self.graph()
        alive = [weakref.ref(node) for kind in graph._topological_order() for node in kind]
        assert len(alive) > 100
        del graph
        assert [ref() for ref in alive if ref() is not None] == []
        assert gc.collect() == 0


class TestErrors:
    """The table of bad input: what is done with a Value of `data`, what is raised, and that nothing changed."""

    # fmt: off
    BAD = (
        ("a root of a negative", -8.0, lambda v: v ** (1 / 3), ValueError, r"-8\.0 \*\* 0\.33.*is not real"),
        ("a root of a negative number", 0.5, lambda v: (-8) ** v, ValueError, r"-8 \*\* 0\.5.*is not real"),
        ("1 / 0", 0.0, lambda v: 1 / v, ZeroDivisionError, r"1 / 0\.0: division by zero"),
        ("floor division by 0", 0.0, lambda v: 5 // v, ZeroDivisionError, r"5 // 0\.0: division by zero"),
        ("modulo 0", 0.0, lambda v: 5 % v, ZeroDivisionError, r"5 % 0\.0: modulo by zero"),
        ("0 ** -1", 0.0, lambda v: v**-1, ZeroDivisionError, r"0\.0 \*\* -1: zero has no negative power"),
        ("exp of 1000", 1000.0, lambda v: v.exp(), OverflowError, r"exp\(1000\.0\): .*too large"),
        ("1000 ** 1000", 1000.0, lambda v: v**v, OverflowError, r"1000\.0 \*\* 1000\.0: .*too large"),
        ("adding text", 1.0, lambda v: v + "a", TypeError, r"unsupported operand type\(s\) for \+: 'Value' and 'str'"),
        ("minus a Decimal", 1.0, lambda v: v - Decimal(1), TypeError, r"unsupported .* 'Value' and 'decimal.Decimal'"),
        ("ordered with text", 1.0, lambda v: v < "a", TypeError, "not supported between .* 'float' and 'str'"),
        ("hypot with text", 1.0, lambda v: v.hypot("2"), TypeError, "a Value holds a number .* not str: '2'"),
        ("float", 1.0, float, TypeError, r"^float\(v\), .* lose the gradient: .* v\.exp\(\); .* scalar\.exp\("),
        ("a printf format", 1.0, lambda v: "%.2f" % v, TypeError, r'"%.2f" % v would .*:\.2f}"|%f requires'),  # noqa: UP031
        ("int", 1.0, int, TypeError, r"^int\(v\) would lose the gradient: write int\(v\.data\)"),
        ("complex", 1.0, complex, TypeError, r"^float\(v\), .* would lose the gradient: write v.data"),
        ("round", 1.0, round, TypeError, r'^round\(v\) would lose .* write round\(v\.data, 2\), or f"{v:\.2f}"'),
        ("times a list", 1.0, lambda v: v * [1, 2], TypeError, r"is \[1, 2\]: .* write \[v \* x for x in xs\]"),
        ("a list times it", 1.0, lambda v: [1, 2] * v, TypeError, r"is \[1, 2\]: for each number in a list"),
        ("sum of a list and 2", 1.0, lambda v: micrograd.sum([v], 2.0), TypeError, r"^sum.* \[Value.*\], 2\.0: put"),
        ("mean of two", 1.0, lambda v: mean(v, v), TypeError, r"^mean\(\) was given .* as in \[a, b\]"),
        ("logsumexp of two", 1.0, lambda v: micrograd.logsumexp(v, v), TypeError, r"^logsumexp\(\) was given"),
        ("a Value of a Value", 1.0, Value, TypeError, r"holds a number, not a Value: use v\.data, as in p\.data -= lr"),
        ("dot of two lengths", 1.0, lambda v: dot([v, v], [v]), ValueError, "same length, not of lengths 2 and 1"),
        ("dot of no lists", 1.0, lambda v: dot(v, 2.0), TypeError, r"^dot\(\) was given Value\(.* into a list"),
        ("mean of no list", 1.0, lambda v: mean(3), TypeError, "^mean.. was given 3: put .* into a list"),
        ("mean of nothing", 1.0, lambda v: mean([]), ValueError, "mean.* needs at least one value"),
        ("logsumexp of nothing", 1.0, lambda v: micrograd.logsumexp([]), ValueError, "^logsumexp.. needs at least one"),
        ("take of nothing", 1.0, lambda v: take([], 0), ValueError, "needs at least one value to choose from"),
        ("take of a number", 1.0, lambda v: take(v, 0), TypeError, "^values is of type Value: expected a list or an a"),
        ("take of a text", 1.0, lambda v: take("ab", 1), TypeError, "not str: 'b'"),
        ("dot with text", 1.0, lambda v: dot([v], ["a"]), TypeError, "not str: 'a'"),
        ("three inputs", 1.0, lambda v: nn.MLP(3, [4, 1])(v, v, v), ValueError, r"takes a list .* not 3 arguments$"),
        ("an operand without a comma", 1.0, lambda v: Value(2.0, (v), "op"), TypeError, r"one operand, write \(x,\)$"),
        ("a label that is no operand", 1.0, lambda v: Value(2.0, "a"), TypeError, r"did you mean label='a'\?$"),
        ("numbers around it", 1.0, lambda v: Value(6.0, (2.0, v, 3), "op"), TypeError, "op must be Values, .* promote"),
        ("no name", 1.0, lambda v: Value(1.0, (v,), abs), TypeError, "^the name .* comes before its _backward, but"),
        ("a list of conditions", 1.0, lambda v: where([False], v, v), TypeError, r"single condition, not \[False\]"),
        ("minimum of a list", 1.0, lambda v: minimum([v, v]), TypeError, r"^minimum.* not 1: .*minimum\(\*values\)"),
        ("clip to None", 1.0, lambda v: v.clip(None, 1), TypeError, r"^low .* not None.* no bound, pass -math\.inf$"),
        ("clip to None above", 1.0, lambda v: v.clip(0, None), TypeError, r"not None.*; for no bound, pass math\.inf$"),
        ("clip to a Value", 1.0, lambda v: v.clip(0, Value(0.5)), TypeError, r"^high .* where\(x > high, high, x\)"),
        ("leaky_relu with a text", 1.0, lambda v: v.leaky_relu("a"), TypeError, "slope must be a number, not 'a'"),
        ("leaky_relu with a Value", 1.0, lambda v: v.leaky_relu(v), TypeError, r"^slope .* where\(x > 0, x, slope \*"),
        ("backward of text", 1.0, lambda v: (v * 2).backward("a"), TypeError, "not str: 'a'"),
        ("backward of a Value", 1.0, lambda v: (v * 2).backward(v), TypeError, "a number, not a Value"),
        ("backward of a huge int", 1.0, lambda v: (v * 3).backward(10**400), OverflowError, "int too large"),
        ("without a closure", 2.0, lambda v: Value(2.0, (v,), "op"), NotImplementedError, r"^op\(2\.0\) has no deriv"),
        ("a complex grad", 2.0, own(abs, lambda x, grad: 1j), TypeError, r"^the .* own\(2\.0\) .* complex, not a"),
        ("a list as grad", 2.0, lambda v: own(abs, lambda _, g: g if g == 1 else [g])(v) * 2.0, TypeError, "type list"),
        ("asin at 1", 1.0, lambda v: v.asin(), ZeroDivisionError, r"derivative of asin\(1\.0\) cannot be taken: ."),
        ("acosh at 1", 1.0, lambda v: v.acosh(), ZeroDivisionError, r"derivative of acosh\(1\.0\) cannot be taken"),
        ("a root at 0", 0.0, lambda v: v**0.5, ZeroDivisionError, r"derivative of \*\*\(0\.0, 0\.5\) cannot be taken"),
        ("by the exponent", 2.0, lambda v: Value(-2.0) ** v, ValueError, r"log\(-2\.0\).* in x \*\* 2, or as exponent"),
        ("the angle of the origin", 0.0, lambda v: v.atan2(0.0), ZeroDivisionError, r"of atan2\(0.0, 0.0\) cannot be"),
        ("its distance", 0.0, lambda v: v.hypot(0.0), ZeroDivisionError, r"of hypot\(0.0, 0.0\) cannot be taken"),
        ("too steep", 1e-200, lambda v: v**-1, OverflowError, r"derivative of \*\*\(1e-200, -1\) cannot be taken"),
    )
    # fmt: on

    @pytest.mark.parametrize(("data", "act", "error", "message"), [pytest.param(*row[1:], id=row[0]) for row in BAD])
    def test_it_is_named_and_changes_nothing_forward_and_backward(self, data, act, error, message):
        v = Value(data, label="v")
        v.grad = 0.75
        with pytest.raises(error, match=message):
            (act(v) * 3 + v * 2).backward()
        assert (v.data, v.grad, v.label, v._prev) == (data, 0.75, "v", ())

    @pytest.mark.parametrize("data", ["3", None, [1.0], 1j, (1.0,), {}, b"1", Decimal(1), object, print, *NO_NUMBERS])
    def test_an_error_names_what_came_and_what_is_accepted(self, data):
        with pytest.raises(TypeError) as caught:
            Value(data)
        message = str(caught.value)
        assert message.startswith("a Value holds a number (float, int, Fraction or NumPy scalar)")
        assert f"not {type(data).__name__}: {data!r}" in message


class TestComparisons:
    @pytest.mark.parametrize("wrap", [Value, float, int, Fraction], ids=lambda wrap: wrap.__name__)
    def test_comparisons_are_by_data_and_give_plain_bools(self, wrap):
        v = Value(2.0)
        comparisons = [v < wrap(3), v <= wrap(2), v > wrap(1), v >= wrap(2), v == wrap(2), v != wrap(3)]
        reflected = [wrap(1) < v, wrap(2) <= v, wrap(3) > v, wrap(2) >= v, wrap(2) == v, wrap(3) != v]
        contrary = [v < wrap(2), v <= wrap(1), v > wrap(2), v >= wrap(3), v == wrap(1), v != wrap(2)]
        assert [*comparisons, *reflected] == [True] * 12
        assert contrary == [False] * 6
        assert {type(answer) for answer in comparisons + reflected + contrary} == {bool}
        nan = Value(NAN)
        assert [nan == nan, nan != nan] == [False, True]

    @pytest.mark.parametrize("other", [None, "2", [2.0], object()])
    def test_a_value_is_unequal_to_anything_but_a_number(self, other):
        assert (Value(2.0) == other) is False
        assert (Value(2.0) != other) is True

    def test_the_hash_is_that_of_the_object(self):
        a, b = Value(1.0), Value(1.0)
        assert a == b
        assert len({a, b}) == 2
        assert hash(a) == object.__hash__(a)

    def test_a_value_is_true_unless_zero(self):
        assert [bool(Value(x)) for x in (0.0, -0.0, 0, 1.0, -2, NAN)] == [False, False, False, True, True, True]


class Bounded(Value):
    """A user's own kind of Value, with a slot."""

    __slots__ = ("bounds",)


class TestWhatPythonAsksOfANumber:
    def test_the_repr_shows_data_gradient_and_label(self):
        assert repr(Value(2.0)) == "Value(data=2.0, grad=0.0)"
        assert repr(Value(2, label="it's")) == 'Value(data=2, grad=0, label="it\'s")'
        assert str(Value(2.0)) == "Value(data=2.0, grad=0.0)"

    def test_a_format_is_that_of_the_data(self):
        v = Value(math.pi)
        assert f"{v:.4f}" == "3.1416"
        assert f"{v:>8.2f}" == "    3.14"
        assert f"{v}" == repr(v)
        with pytest.raises(ValueError, match="format code"):
            format(v, "s")

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
    def test_a_leaf_is_copied_with_its_attributes_and_slots(self, duplicate):
        v = Bounded(2.5, label="w")
        v.grad = 0.5
        v.momentum, v.bounds = [0.25], [0.0, 3.0]
        twin = duplicate(v)
        assert twin is not v
        assert (twin.data, twin.grad, twin.label, twin._prev) == (2.5, 0.5, "w", ())
        assert (twin.momentum, twin.bounds) == ([0.25], [0.0, 3.0])
        twin.data, twin.colour = 7.0, "red"
        assert v.data == 2.5
        assert not hasattr(v, "colour")

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_an_inner_node_says_why_it_cannot_be_copied(self, duplicate):
        with pytest.raises(TypeError) as caught:
            duplicate(Value(2.0) * 3)
        assert str(caught.value) == "*(2.0, 3) holds closures: copy or pickle leaves, or its .detach()"
        assert pickle.loads(pickle.dumps((Value(2.0) * 3).detach())).data == 6.0

    def test_ints_stay_exact(self):
        x = Value(3)
        y = (x**2 + 2 * x - 1) % 10
        y.backward()
        assert repr([y, x]) == "[Value(data=4, grad=1), Value(data=3, grad=8)]"
        assert tuple(number.data for number in divmod(x, -2)) == divmod(3, -2)
        assert tuple(number.data for number in divmod(-7, x)) == divmod(-7, 3)

    def test_fractions_stay_exact(self):
        x, y = Value(THIRD), Value(Fraction(2, 7))
        result = sum([x * y, x / y, mean([x, y]), (x - y) ** 3, -x, x % y, y.relu(), (-y).relu(), where(x > y, x, y)])
        result.backward()
        a, b = THIRD, Fraction(2, 7)
        assert result.data == a * b + a / b + (a + b) / 2 + (a - b) ** 3 - a + (a - b) + b + a
        assert x.grad == b + 1 / b + Fraction(1, 2) + 3 * (a - b) ** 2 - 1 + 1 + 1
        assert y.grad == a - a / b**2 + Fraction(1, 2) - 3 * (a - b) ** 2 - 1 + 1
        assert {type(number) for number in (result.data, x.grad, y.grad)} == {Fraction}


class TestGradientsOfLeaves:
    @pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.array, Fraction])
    def test_gradients_add_up_in_double_precision_whatever_was_assigned_or_added(self, kind):
        v = Value(1.0)
        v.grad = kind(0)
        for _ in range(3):
            (v * 0.1).backward()
        own(abs, lambda x, grad: x.grad + np.float32(0))(v).backward()
        assert repr(v.grad) == repr(0.1 + 0.1 + 0.1)

    @pytest.mark.parametrize("grad", [None, 1j, "1", np.array([1.0]), np.complex64(1), Value(1.0)], ids=repr)
    def test_what_is_not_a_number_is_not_added_to(self, grad):
        v, w = Value(1.0), Value(2.0)
        w.grad = grad
        with pytest.raises(TypeError, match=r"^the grad of Value\(data.* is not a number: zero_grad\(\) sets it to 0"):
            (v * w).backward()
        assert v.grad == 0.0
        assert w.grad is grad

    @pytest.mark.parametrize(
        ("a", "b", "slope"), [(5.5, -INF, 1.0), (-5.5, INF, 1.0), (5.5, INF, 0.0), (-5.5, -INF, 0.0), (-5.5, 2.0, 3.0)]
    )
    def test_the_derivative_of_a_remainder_by_the_divisor_is_the_floor_of_the_quotient(self, a, b, slope):
        assert gradients(operator.mod, a, b) == [1.0, slope]


@pytest.fixture
def tensor():
    return pytest.importorskip("torch").tensor


class TestTensors:
    @pytest.mark.parametrize("number", [1.5, 3, True])
    def test_a_tensor_without_dimensions_is_a_number(self, tensor, number):
        v = Value(tensor(number))
        assert (v.data, type(v.data)) == (number, type(number))
        assert v == tensor(number)
        assert (Value(2.0) * tensor(number)).data == 2.0 * number
        assert (tensor(number) - Value(2.0)).data == number - 2.0
        (v := Value(2.0)).backward(tensor(number))
        assert v.grad == number

    def test_a_tensor_of_one_dimension_is_a_list(self, tensor):
        assert dot([Value(1.0), 3.0], tensor([2.0, 4.0])).data == 14.0
        assert sum(tensor([1.0, 2.0])).data == 3.0
        assert take(tensor([1.0, 2.0]), tensor(1)).data == 2.0
        assert nn.MLP(2, [2, 1], rng=1)(tensor([1.0, 2.0])) == nn.MLP(2, [2, 1], rng=1)([1.0, 2.0])


class TestNumPy:
    @pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, np.bool_])
    def test_a_number_of_less_precision_that_was_assigned_is_refused_with_what_to_set(self, kind):
        v, w = Value(1.0), Value(2.0)
        v.data = kind(1)
        loss = v * w
        with pytest.raises(TypeError, match=r"set to .*, of low precision: set it to ") as caught:
            loss.backward()
        assert (v.grad, w.grad) == (0.0, 0.0)
        v.data = eval(re.search(r"set it to (.*) and", str(caught.value))[1])
        (v * w).backward()
        assert (v.grad, w.grad) == (2.0, 1.0)

    def test_a_float64_that_was_assigned_becomes_a_float(self):
        v = Value(1.0)
        v.data = np.float64(0.1)
        (v * 3).backward()
        assert (v.data, type(v.data), v.grad) == (0.1, float, 3.0)

    @pytest.mark.parametrize("number", [np.longdouble("0.1"), mpmath.mpf("0.1")])
    def test_a_number_of_more_digits_than_a_float_is_refused_with_what_to_give(self, number):
        message = r"not (longdouble|mpf): .*: pass float\(x\), or tell micrograd.scalar.register about this type$"
        for use in (Value, Value(1.0).__mul__, lambda x: dot([1.0], [x]), lambda x: jacobian(lambda y: [y, x])(1.0)):
            with pytest.raises(TypeError, match=message):
                use(number)
        assert Value(float(number)).data == 0.1

    @pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.int8, np.bool_])
    @pytest.mark.parametrize("operation", OPERATORS, ids=NAME)
    def test_a_numpy_scalar_may_stand_on_either_side(self, operation, kind):
        left, right = operation.apply(kind(2), Value(3.0)), operation.apply(Value(3.0), kind(2))
        assert type(left) is type(right) is Value
        number = kind(2).item()
        assert (left.data, right.data) == (operation.apply(number, 3.0), operation.apply(3.0, number))
        assert type(left.data) is type(right.data) is float

    @pytest.mark.parametrize("operation", OPERATORS, ids=NAME)
    def test_operators_work_by_element(self, operation):
        values = np.array([Value(1.5), Value(2.5)])
        for other in (Value(2.0), 2.0, np.array([2.0, 2.0]), np.array([Value(2.0), Value(2.0)])):
            assert [v.data for v in operation.apply(values, other)] == [operation.apply(x, 2.0) for x in (1.5, 2.5)]
            assert [v.data for v in operation.apply(other, values)] == [operation.apply(2.0, x) for x in (1.5, 2.5)]

    @pytest.mark.parametrize("row", [f for f in FUNCTIONS if type(getattr(np, f.name, 0)) is np.ufunc], ids=NAME)
    def test_functions_of_arrays(self, row):
        function, operands = getattr(np, row.name), [*zip(*row.points, strict=True)]
        arrays = [np.array(list(map(Value, numbers))) for numbers in operands]
        assert [v.data for v in function(*arrays)] == pytest.approx(list(function(*operands)), rel=1e-15)
        assert type(function(*[a[0] for a in arrays])) is Value

    def test_some_functions_of_arrays_have_the_names_of_numpy(self):
        for alias, name in ALIASES.items():
            number = 1.5 if name == "acosh" else 0.5
            (result,) = getattr(np, alias)(np.array([Value(number)]))
            assert (result.data, result._op) == (getattr(scalar, name)(number), name)
        y, x = np.array([Value(1.0), Value(-1.0)]), np.array([2.0, -2.0])
        assert [v.data for v in np.arctan2(y, x)] == pytest.approx(np.arctan2([1.0, -1.0], x))
        assert np.arctan2(y[0], 2.0)._op == "atan2"
        assert [v.data for v in np.floor(np.array([Value(2.5), Value(-0.5)]))] == [2.0, -1.0]


class TestFunctionsOfTwo:
    @pytest.mark.parametrize("name", ["atan2", "hypot", "maximum", "minimum"])
    @pytest.mark.parametrize("kinds", [(Value, Value), (float, Value), (Value, float), (float, float)])
    def test_a_plain_number_may_stand_on_both_sides(self, name, kinds):
        operands = [kind(x) for kind, x in zip(kinds, (3.0, -4.0), strict=True)]
        result = getattr(micrograd, name)(*operands)
        assert (type(result), result._op) == (Value, name)
        assert result.data == getattr(scalar, name)(3.0, -4.0)
        if kinds[0] is Value:
            assert getattr(operands[0], name)(operands[1]).data == result.data

    def test_of_levels_the_innermost_is_differentiated(self):
        mixed = grad(lambda x: grad(lambda y: scalar.hypot(x, y) * y)(4.0))(3.0)
        assert mixed == pytest.approx(3 / 5 - 16 * 3 / 125)
        assert grad(lambda x: x * grad(lambda y: maximum(x, y))(1.0))(2.0) == 0.0


class TestMaximumOfMany:
    @pytest.mark.parametrize(("xs", "largest", "gradients"), [
        ([3, 1, 2], 3, [1, 0, 0]),
        ([Fraction(1, 3), Fraction(1, 2), Fraction(1, 2)], Fraction(1, 2), [0, Fraction(1, 2), Fraction(1, 2)]),
        ([2.0, 2.0, 2.0, 2.0], 2.0, [0.25] * 4),
        ([1.0, math.inf, math.inf, -math.inf], math.inf, [0.0, 0.5, 0.5, 0.0]),
    ])  # fmt: skip
    def test_equal_ones_share_the_gradient_which_is_exact_if_they_are(self, xs, largest, gradients):
        for operation, sign in ((maximum, 1), (minimum, -1)):
            operands = [Value(sign * x) for x in xs]
            result = operation(*operands)
            result.backward(3**40)  # which no float equals
            assert (result.data, result._prev, result._op) == (sign * largest, tuple(operands), operation.__name__)
            assert [x.grad for x in operands] == [3**40 * share for share in gradients]
            assert type(result.data) is type(xs[0])

    def test_in_nested_derivatives_equal_ones_share_the_outer_gradient_too(self):
        assert grad(lambda x: grad(lambda y: maximum(x, y, x) * y)(2.0))(2.0) == pytest.approx(2 / 3)


class TestLogsumexp:
    @pytest.mark.parametrize(("xs", "value", "gradients"), [
        ([1e308, -1e308], 1e308, [1.0, 0.0]), ([-1e308, -1e308], -1e308, [0.5, 0.5]), ([3.0], 3.0, [1.0]),
        ([INF, 1e308, -INF], INF, [1.0, 0.0, 0.0]), ([-INF, 1.0], 1.0, [0.0, 1.0]),
        ([-INF, -INF], -INF, [0.5, 0.5]), ([INF, INF], INF, [0.5, 0.5]),
    ])  # fmt: skip
    def test_the_largest_numbers_and_infinities(self, xs, value, gradients):
        operands = list(map(Value, xs))
        result = micrograd.logsumexp(operands)
        result.backward()
        assert result.data == value
        assert [x.grad for x in operands] == gradients


class TestTake:
    def test_of_lists_it_takes_a_list(self):
        rows = [[Value(10.0 * i + j) for j in range(3)] for i in range(4)]
        assert [v.data for v in take(rows, 2)] == [20.0, 21.0, 22.0]
        assert [[v.data for v in row] for row in take([rows[:2], rows[2:]], 1.0)] == [[20, 21, 22], [30, 31, 32]]
        assert [v.data for v in take(np.array(rows), np.int64(3))] == [30.0, 31.0, 32.0]
        assert [v.data for v in take(Table([[1.0, 2.0], [3.0, 4.0]]), 1)] == [3.0, 4.0]

    @pytest.mark.parametrize("kind", [int, float, bool, Fraction, np.int64, np.float32, np.longdouble, np.array, Value])
    def test_an_index_may_be_a_number_of_any_kind(self, kind):
        assert take([5.0, 6.0], kind(1)).data == 6.0

    @pytest.mark.parametrize(
        "index", [3, -1, 0.5, NAN, INF, "0", None, 1j, [0], np.float32(0.5), np.array([1]), np.eye(2, dtype=int)]
    )
    def test_an_index_that_is_none_is_an_error(self, index):
        message = rf"the index is {re.escape(repr(index).splitlines()[0])}.*: expected a whole number from 0 to 2"
        with pytest.raises(ValueError, match=f"(?s){message}"):
            take([1.0, 2.0, 3.0], index)


@pytest.mark.usefixtures("two_derivatives")
class TestLevels:
    """A Value whose number is a Value: the inner derivative of a nest of them."""

    @pytest.mark.parametrize("operation", OPERATORS, ids=NAME)
    def test_the_inner_level_wraps_the_outer_on_either_side(self, operation):
        a, b = 1.5, 2.5
        for apply in (lambda x, y: operation.apply(Level1(x), y), lambda x, y: operation.apply(x, Level1(y))):
            x, y = Value(a), Value(b)
            result = apply(x, y)
            assert type(result) is Level1
            assert type(result.data) is Value
            assert result.data.data == operation.apply(a, b)
            result.data.backward()
            assert (x.grad, y.grad) == pytest.approx(operation.exact_gradient((a, b)), rel=1e-15)

    def test_detach_cuts_at_every_level(self):
        x = Value(2.0)
        detached = Level1(x * 3).detach()
        assert type(detached) is Level1
        assert detached.data.data == 6.0
        assert detached.data._prev == ()

    def test_a_value_does_not_hold_one_of_its_own_or_an_inner_level(self):
        for inner in (Level1(1.0), Level2(1.0)):
            with pytest.raises(TypeError, match="a number, not a Value"):
                Level1(inner)


class Tagged(Value):
    """A user's own kind of Value."""

    def tagged(self):
        return True


class TestConstants:
    """Plain numbers in operations or given to `promote`, and what `detach` returns: no gradients."""

    @pytest.mark.parametrize("constant", [
        Value(3.0).detach(), promote(Value(1.0), 3.0)[1], (Value(1.0) * 3.0)._prev[1], (3.0 - Value(1.0))._prev[0],
        sum([Value(1.0), 3.0])._prev[1], dot([Value(1.0)], [3.0])._prev[1], maximum(Value(1.0), 3.0)._prev[1],
    ])  # fmt: skip
    def test_they_get_no_gradient(self, constant):
        for result in (constant**2, Value(2.0) * constant, dot([Value(2.0)], [constant]), -constant):
            result.backward()
            assert (constant.data, constant.grad, constant._is_constant) == (3.0, 0.0, True)

    def test_no_level_of_a_nested_derivative_gives_them_one(self):
        assert grad(grad(lambda x: x**3 * (x * x).detach()))(2.0) == 6 * 2.0 * 2.0**2


class TestSubclasses:
    def test_operations_keep_the_class_of_the_first_operand(self):
        v = Tagged(2.0)
        for result in (v + 1, 1 + v, v * Value(2.0), -v, v.exp(), abs(v), 2**v, v.detach(), copy.deepcopy(v)):
            assert result.tagged()

    def test_a_fused_operation_keeps_the_class_of_the_first_operand(self):
        values = [Value(1.0), Tagged(2.0)]
        for fused in (sum, mean, lambda values: dot(values, [2.0, 3.0]), lambda values: maximum(*values, *values)):
            assert type(fused(values)) is Value
            assert type(fused(values[::-1])) is Tagged

    def test_operations_do_not_call_their_init(self):
        class Weight(Value):
            def __init__(self, name, data):
                super().__init__(data, label=name)
                self.name = name

        v = Weight("w", 2.0)
        result = 3 * v + dot([v], [v])
        result.backward()
        assert (v.name, v.label, v.grad) == ("w", "w", 7.0)
        assert type(result) is Weight
        assert not hasattr(result, "name")
        assert copy.deepcopy(v).name == "w"


class TestThePackage:
    def fresh(self, program):
        """The words that a program prints, in a Python of its own."""
        checkout = Path(micrograd.__file__).parents[1]
        command = [sys.executable, "-c", program]
        return subprocess.run(command, cwd=checkout, capture_output=True, check=True, text=True).stdout.split()

    def test_every_name_is_there_when_it_is_asked_for(self):
        names = {*micrograd.__all__, "compile", "sum"}
        attributes = ", ".join(f"micrograd.{name}" for name in names)
        self.fresh(f"import micrograd; {attributes}")
        self.fresh(f"from micrograd import {', '.join(names)}")
        assert micrograd.fit is micrograd.training.fit
        assert names < set(dir(micrograd)) >= vars(micrograd).keys()

    def test_all_of_it_does_without_numpy(self):
        loaded = self.fresh("import sys; from micrograd import *; print(*sys.modules)")
        assert {"micrograd.compiler", "micrograd.training", "micrograd.viz"} < set(loaded)
        assert "numpy" not in loaded

    def test_type_checkers_see_the_names_that_are_loaded_later(self):
        body = ast.parse(Path(micrograd.__file__).read_text(encoding="utf-8")).body
        (seen,) = [node.body for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
        names = {alias.name: node.module for node in seen for alias in node.names}
        homes = micrograd._LAZY.items()
        assert names == {name: "micrograd" if home == name else f"micrograd.{home}" for name, home in homes}

    def test_a_star_replaces_nothing_of_python(self):
        assert set(micrograd.__all__) & set(dir(builtins)) == set()
        names = {}
        exec("from micrograd import *", names)
        assert {"Value", "dot", "grad", "mean", "nn", "where"} <= names.keys()

    def test_an_unknown_name_is_an_error(self):
        with pytest.raises(AttributeError, match="module 'micrograd' has no attribute 'Valve'"):
            _ = micrograd.Valve


@pytest.mark.parametrize("items", [{1.0: "a"}, {1.0, 2.0}, frozenset([1.0])])
def test_what_has_no_numbers_in_order_is_refused_by_operations_on_lists(items):
    name = type(items).__name__
    for op, use in {"sum": sum, "mean": mean, "dot": lambda x: dot(x, [1.0]), "take": lambda x: take(x, 0)}.items():
        called = "values" if op == "take" else rf"the argument of {op}\(\)"
        with pytest.raises(TypeError, match=f"^{called} is of type {name}: expected a list or an array$"):
            use(items)


@pytest.mark.parametrize(("value", "text"), [
    (1.5, "1.5"), ("x" * 78, repr("x" * 78)), ("x" * 79, "'" + "x" * 76 + "..."),
    ([0.123456789] * 20, "[" + "0.123456789, " * 5 + "...]"),
])  # fmt: skip
def test_a_value_that_is_too_long_to_show_ends_in_dots_after_a_whole_item(value, text):
    assert errors.shown(value) == text
    assert len(text) <= 80


def test_an_item_is_the_number_without_the_graph():
    assert repr([(Value(number) * 1).item() for number in (2.0, 3, THIRD)]) == "[2.0, 3, Fraction(1, 3)]"
