"""Derivatives of functions: `grad`, `jacobian`, `jvp` and others take a function and return a function.

A derivative calls its function with variables, Values of a separate level, and carries derivatives from the result back
to them, or forward. A variable holds the argument itself: if that is a Value, as inside another derivative, the
gradients are Values too, and have derivatives in turn. So derivatives nest to any depth, and a function may close over
Values whose gradients are computed outside, such as the weights of a network.

Levels distinguish the variables of nested derivatives: in `x * grad(lambda y: x + y)(1.0)` the inner derivative sees x
as a constant of a lower level. (Mistaking one variable for the other is called perturbation confusion: Siskind and
Pearlmutter, 2005.) Each thread counts its own levels: compute an inner derivative in the thread of the outer one. A
number that `backward()` stores in `grad` within the function is a constant to the derivative. It is an error to use a
Value of an inner level after its derivative has ended.

Arguments are numbers, Values, NumPy arrays, and lists, tuples and dicts of all of these; keyword arguments are passed
on. The function gets copies of the containers, which it may change in place; dicts have their keys sorted, as in JAX,
a table or Series of pandas becomes an array, an array without dimensions a number. Gradients have the shape of the
argument: for an array, they are an array of doubles (of objects, if they are no plain numbers), for a dict a dict with
sorted keys, for anything else nested lists. Results and jacobians of arrays are arrays, too.
Their numbers are floats for floats, ints and Fractions for exact numbers, Values if an argument is a Value or the
function closes over one.
"""

from typing import Any

from micrograd.arrays import array_of, is_array
from micrograd.derivatives import Argnum, Call, Function, Sweeps, check_function, constant_zero, derivative, gradient
from micrograd.errors import require_ordered
from micrograd.levels import as_number
from micrograd.reductions import dot
from micrograd.slopes import GradientError, gradcheck
from micrograd.trees import at_path, filled, flat, is_regular, shape_of, size
from micrograd.validation import renamed

__all__ = ["GradientError", "grad", "gradcheck", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]

with_jax_names = renamed(argnums="argnum")


@with_jax_names
def grad(f: Function, argnum: Argnum = 0) -> Function:
    """The gradient of `f`, as a function of the same arguments.

    `f` returns one number. `argnum` is the position of the argument to differentiate by, or several positions, for a
    list of gradients. The gradient raises TypeError if `f` does not return a number or an argument does not consist of
    numbers, and ValueError, ZeroDivisionError or OverflowError if a derivative does not exist there.
    """
    both = value_and_grad(f, argnum)
    return lambda *args, **options: both(*args, **options)[1]


@with_jax_names
def value_and_grad(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and its gradient, as a pair. Parameters and errors are those of `grad`."""

    def both(call: Call) -> tuple[Any, Any]:
        if len(call.outputs) != 1:
            raise TypeError(f"grad() expects a function that returns one number, not {len(call.outputs)}: use jacobian")
        [output] = call.outputs  # which may come in a list of one, as from NumPy's keepdims
        return output.data, call.gradient(gradient(output, call.variables))

    return derivative(f, argnum, both)


@with_jax_names
def jacobian(f: Function, argnum: Argnum = 0) -> "Jacobian":
    """The gradient of every number that `f` returns: nested lists of the shape of its result, then of the argument.

    `f` runs once. Derivatives are carried from the argument forward if it has fewer numbers than the result, otherwise
    from the result backward. Parameters and errors are those of `grad`, except that `f` may return nested lists or an
    array.
    """
    return Jacobian(f, argnum)


@with_jax_names
def hessian(f: Function, argnum: Argnum = 0) -> "Jacobian":
    """The second derivatives by each pair of numbers: the jacobian of the gradient. Errors are those of `grad`."""
    return Jacobian(grad(f, argnum), argnum, is_symmetric=True)


@with_jax_names
def jvp(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and its derivative in a direction: the jacobian times a vector, in forward mode.

    `jvp(f)(x, vector)` returns a pair, both in the shape of the result: a function of the arguments of `f`, followed by
    the vector, which has the shape of `x`. Parameters and errors are those of `grad`, except that `f` may return nested
    lists or an array; a vector with more or fewer numbers than `x` raises ValueError.
    """
    return _product("jvp", f, argnum, _tangent)


@with_jax_names
def vjp(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and the gradient of result . vector: a vector times the jacobian, in reverse mode.

    `vjp(f)(x, vector)` returns a pair, the gradient in the shape of `x`: a function of the arguments of `f`, followed
    by the vector, which has the shape of the result. Parameters and errors are those of `jvp`.
    """
    return _product("vjp", f, argnum, _cotangent)


@with_jax_names
def hvp(f: Function, argnum: Argnum = 0) -> Function:
    """The hessian of `f` times a vector: a function of the arguments of `f`, followed by the vector.

    It is computed as the gradient of gradient . vector (Pearlmutter, 1994). Parameters and errors are those of `grad`;
    a vector with more or fewer numbers than the argument raises ValueError.
    """
    return _product("hvp", grad(f, argnum), argnum, lambda call, vector: _cotangent(call, vector, "x")[1])


class Jacobian:
    """The jacobian of a function as a function of the same arguments: what `jacobian` and `hessian` return.

    `f` is the function that it differentiates by `argnum`: for a hessian, which `is_symmetric`, the gradient.
    """

    def __init__(self, f: Function, argnum: Argnum, *, is_symmetric: bool = False) -> None:
        check_function(f)
        self.f, self.argnum, self.is_symmetric = f, argnum, is_symmetric

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The derivatives of the result, in its shape and then in that of the argument."""
        return derivative(self.f, self.argnum, _dense)(*args, **options)

    def sparse(self, *args: Any) -> tuple[Call, list[dict[int, Any]]]:
        """The call, and for each number in the result its derivatives that are not structurally zero, by variables.

        All arguments are trees of numbers. Of a hessian, the lower half is computed, and mirrored.
        """

        def taken(call: Call) -> tuple[Call, list[dict[int, Any]]]:
            sweeps = Sweeps(call.variables, call.outputs)
            return call, sweeps.symmetric() if self.is_symmetric else sweeps.jacobian(sweeps.is_cheaper_forward())

        return derivative(self.f, self.argnum, taken, lifts=True)(*args)  # type: ignore[no-any-return]


def _dense(call: Call) -> Any:
    """The jacobian with its zeros."""
    few_variables = len(call.variables) < len(call.outputs)  # which does not depend on where zeros are
    found = Sweeps(call.variables, call.outputs).jacobian(few_variables)
    zeros = [constant_zero(variable.data) for variable in call.variables]
    rows = [[zero + row[i] if i in row else zero for i, zero in enumerate(zeros)] for row in found]
    shape = shape_of(call.result)
    if is_array(call.args) and is_regular(shape):
        return array_of([x for row in rows for x in row], (*shape, *call.args.shape))
    return filled(call.result, map(call.gradient, rows))


def _product(name: str, f: Function, argnum: Argnum, taken: Any) -> Function:
    """The product of a jacobian and the vector that follows the arguments of `f`."""
    check_function(f)

    def product(*args: Any, **options: Any) -> Any:
        if len(args) < 2:
            raise TypeError(f"call {name}(f) as {name}(f)(x, vector), the vector last; arguments given: {len(args)}")
        *args, vector = args  # type: ignore[assignment]
        if not isinstance(vector, dict):
            require_ordered("vector", vector)
        return derivative(f, argnum, lambda call: taken(call, vector))(*args, **options)

    return product


def _numbers(call: Call, vector: Any, like: Any, of: str) -> list[Any]:
    """The numbers in a vector. Raises ValueError unless it has as many as `like`, and the same keys if it has keys."""
    level = max((variable._level for variable in call.variables), default=0)
    numbers = flat(at_path(lambda number: as_number(number, level), "vector", vector))
    came, expected = shape_of(vector), shape_of(like)
    if len(numbers) != size(expected):
        raise ValueError(f"the vector must have as many numbers as {of}, {size(expected)}, not {len(numbers)}")
    if came != expected and (len(came) > 1 or not is_regular(came)):
        raise ValueError(f"the vector must have the shape of {of}, {expected}, not {came}")
    return numbers


def _tangent(call: Call, vector: Any) -> tuple[Any, Any]:
    """The result and its derivative in the direction of the vector."""
    numbers = _numbers(call, vector, call.args, "x")
    rows = Sweeps(call.variables, call.outputs).forward({0: number} for number in numbers)
    values = [output.data for output in call.outputs]
    tangents = [constant_zero(value) + row.get(0, 0) for value, row in zip(values, rows, strict=True)]
    return call.shaped(values), call.shaped(tangents)


def _cotangent(call: Call, vector: Any, of: str = "the result") -> tuple[Any, Any]:
    """The result and the gradient of its product with the vector."""
    numbers = _numbers(call, vector, call.result, of)
    slopes = gradient(dot(call.outputs, numbers), call.variables)
    return call.shaped([output.data for output in call.outputs]), call.gradient(slopes)
