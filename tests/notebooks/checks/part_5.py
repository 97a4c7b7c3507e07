"""The checks of part 5: the bridge."""

from collections.abc import Callable

from .answers import NotYet, check, close, leads_back, returned, same


def _table(call: str, result: object, kind: type, shape: tuple[int, ...], **operands: object) -> object:
    """The result of the call, which has to be a tensor of this shape that leads back to these."""
    returned(call, result, kind, "a Tensor")
    if result.data.shape != shape:
        raise NotYet(f"{call} has the shape {result.data.shape}: expected {shape}")
    leads_back(call, result, **operands)
    return result


@check
def tensor_relu(answer: Callable, kind: type) -> None:
    numbers = [0.5, -1.0, 2.0, -0.5, 3.0, -2.0]
    x = kind([numbers[:3], numbers[3:]])
    result = _table("relu(x)", answer(x), kind, (2, 3), x=x)
    for number, found in zip(numbers, result.data.flat, strict=True):
        same(f"where x is {number}, relu(x)", float(found), max(number, 0.0))
    result._backward(2.0 + 0 * result.data)
    result._backward(1.0 + 0 * result.data)
    for number, found in zip(numbers, x.grad.flat, strict=True):
        if not close(found, 3.0 * (number > 0)):
            hint = {1.0: ": = in place of +=", 2.0: ": does _backward use the gradient it is given?"}.get(found, "")
            raise NotYet(f"gradients of 2 and then 1 come back, and where x is {number}, {found:g} arrives{hint}")


@check
def bias(answer: Callable, kind: type) -> None:
    x, b = kind([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), kind([0.5, -1.0, 0.0])
    result = _table("add_bias(x, b)", answer(x, b), kind, (2, 3), x=x, b=b)
    same("the first number of add_bias(x, b)", float(result.data[0][0]), 1.5)
    same("the second number of the last row", float(result.data[1][1]), 4.0)
    same("the last number", float(result.data[1][2]), 6.0)
    gradient = result.data * 0 + [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]
    for times in 1, 2:
        try:
            result._backward(gradient)
        except ValueError as error:
            raise NotYet(
                f"on the way back: {error}; b has one number for each column, and gets the gradients of a whole column"
            ) from None
        if x.grad.shape != (2, 3) or b.grad.shape != (3,):
            raise NotYet(f"x.grad has the shape {x.grad.shape} and b.grad {b.grad.shape}: expected (2, 3) and (3,)")
        for column, (expected, of) in enumerate([(11.0, "1 and 10"), (22.0, "2 and 20"), (33.0, "3 and 30")]):
            _arrives(f"b.grad for column {column}, whose gradients are {of},", b.grad[column], expected, times)
        _arrives("x.grad where the gradient is 20", x.grad[1][1], 20.0, times)


def _arrives(what: str, found: float, expected: float, times: int) -> None:
    if times == 2 and close(found, expected):
        raise NotYet(f"after the gradients come back again, {what} is still {found:g}: use += instead of =")
    same(what, float(found) / times, expected)
