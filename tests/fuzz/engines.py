"""What runs programs: an engine takes a list of programs and returns a result for each."""

import tempfile
from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import micrograd
from micrograd import Value
from tests.fuzz.bounded import Bounded
from tests.fuzz.programs import Kind, Program, evaluate, leaves, total
from tests.javascript import in_node


class Result(NamedTuple):
    """The value of a program and its gradient by the leaves, or the error in place of both."""

    value: Any
    gradient: list[Any]
    error: str = ""


Engine = Callable[[list[Program]], list[Result]]


def eager(programs: list[Program], number: Callable[[float], Any] = float) -> list[Result]:
    return [_guarded(_eager, program, number) for program in programs]


def bounded(programs: list[Program]) -> list[Result]:
    """The eager engine on numbers that know the bound of their error."""
    return eager(programs, Bounded)


def pytorch(programs: list[Program]) -> list[Result]:
    import torch

    return [_guarded(_pytorch, program, torch) for program in programs]


def python(programs: list[Program]) -> list[Result]:
    return _compiled(programs, "python")


def c(programs: list[Program]) -> list[Result]:
    return _compiled(programs, "c")


def javascript(programs: list[Program]) -> list[Result]:
    return _compiled(programs, "javascript")


ENGINES: dict[str, Engine] = {"torch": pytorch, "python": python, "c": c, "javascript": javascript}
"""What the eager engine can be compared with."""


def _guarded(engine: Callable[..., Result], *args: Any) -> Result:
    try:
        return engine(*args)
    except (ArithmeticError, ValueError) as error:
        return Result(None, [], f"{type(error).__name__}: {error}")


def _apply(kind: Kind, operands: list[Any]) -> Any:
    return kind.apply(*operands)


def _eager(program: Program, number: Callable[[float], Any]) -> Result:
    results = evaluate(program, lambda x: Value(number(x)), _apply)
    value = total(program, results)
    value.backward(number(1.0))
    return Result(value.data, [results[i].grad for i in leaves(program)])


def _pytorch(program: Program, torch: Any) -> Result:
    results = evaluate(
        program,
        lambda x: torch.tensor(x, dtype=torch.float64, requires_grad=True),
        lambda kind, operands: kind.torch(torch, *operands),
    )
    value = total(program, results)
    value.backward()
    gradient = [results[i].grad for i in leaves(program)]
    return Result(value.item(), [0.0 if grad is None else grad.item() for grad in gradient])


def _compiled(programs: list[Program], backend: str) -> list[Result]:
    """All programs in one function, since a compiler is slow to start.

    The function is the sum of the programs, each with leaves of its own and times a weight of its own, 1: so the
    derivative by the leaves is that of their program, and the derivative by the weight is the program's value.
    """

    def together(weights: list[Value], *inputs: list[Value]) -> Value:
        rest = chain(*inputs)
        values = [total(program, evaluate(program, lambda _: next(rest), _apply)) for program in programs]
        return micrograd.dot(weights, values)

    arguments = [1.0] * len(programs), *[[program[i] for i in leaves(program)] for program in programs]
    try:
        if backend == "javascript":
            values, *gradients = _in_node(micrograd.compile(together, arguments, backend="python"), arguments)
        else:
            _, (values, *gradients) = micrograd.compile(together, arguments, backend=backend).value_and_grad(*arguments)
    except (ArithmeticError, ValueError) as error:
        if len(programs) > 1:
            return [result for program in programs for result in _compiled([program], backend)]
        return [Result(None, [], f"{type(error).__name__}: {error}")]
    return [Result(value, gradient) for value, gradient in zip(values, gradients, strict=True)]


def _in_node(fast: Any, arguments: Sequence[list[float]]) -> list[list[float]]:
    """The gradient of an exported function by each of its arguments."""
    inputs = list(chain(*arguments))
    with tempfile.TemporaryDirectory() as directory:
        fast.export_js(f"{directory}/model.mjs")
        script = f"""
import {{ valueAndGrad }} from "./model.mjs";
const dx = new Float64Array({len(inputs)});
valueAndGrad([], {inputs}, dx);
const results = [...dx];
"""
        numbers = iter(in_node(Path(directory), script))
    return [list(islice(numbers, len(argument))) for argument in arguments]
