"""Programs in two phrasings each: the lines of their kernels, the time to compile, and that of a call.

The same arithmetic as two people would write it down: row by row or column by column, part by part or all at once.
What is compiled, from an empty cache, is the C for a single call and that for 32 examples, with their gradients if the
result is one number. The compiler was written without a look at the last six programs.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from tests.benchmarks import gpt, mlp, values
from tests.benchmarks.harness import Benchmark, Contestant, Measure, compilation, repeated
from tests.benchmarks.programs import PROGRAMS, Phrased

PHRASINGS = ("one phrasing", "the other")
MANY = 32  # examples
GPT = "GPT of 7 tokens"
NAMES = (GPT, *PROGRAMS)


def benchmarks() -> list[Benchmark]:
    """The lines of each program's kernel, the time to compile it, and that of a call."""
    return [
        Benchmark(
            f"{what}: {name}",
            tuple(Contestant(phrasing, prepare, (name, i)) for i, phrasing in enumerate(PHRASINGS)),
            unit=unit,
            rounds=3 if unit == "s" else 1,  # lines do not vary
        )
        for name in NAMES
        for what, prepare, unit in (
            ("lines of the kernel", kernel, "lines"),
            ("seconds to compile", seconds, "s"),
            (f"a call with {MANY} examples", microseconds, "s"),
        )
    ]


@cache
def made(name: str) -> Phrased:
    if name != GPT:
        return PROGRAMS[name].make(*PROGRAMS[name].full)
    from micrograd import Value, take

    def softmax(logits: Sequence[Any]) -> list[Any]:
        powers = [logit.exp() for logit in logits]
        return [power / sum(powers) for power in powers]

    def cross_entropy(logits: Sequence[Any], target: Any) -> Any:
        return -take(softmax(logits), target).log()

    other = gpt.GPT(gpt.Operations(Value, take, values.dot, values.mean, softmax, cross_entropy))
    tasks = [model.task([gpt.NAME]) for model in (gpt.our_gpt(), other)]
    parameters = [parameter for task in tasks for parameter in task.parameters]
    return Phrased(*[task.loss for task in tasks], (gpt.NAME[:-1], gpt.NAME[1:]), parameters)


def compiled(name: str, phrasing: int) -> tuple[Any, Any]:
    """The program in C, and its example, many times."""
    program = made(name)
    batch = tuple([[argument] * MANY for argument in program.example])
    return mlp.compiled(mlp.Task(program[phrasing], program.parameters, batch))


def called(name: str, phrasing: int) -> tuple[Callable[[], object], float]:
    """A call with many examples, forward and backward if the result is one number; and what one example gives."""
    from micrograd.support.trees import flat as flatten

    program, (fast, packed) = made(name), compiled(name, phrasing)
    results = list(flatten(fast(*program.example)))
    has_gradients = len(results) == 1 and program.parameters
    return partial(fast.backward if has_gradients else fast.map, packed), float(sum(results))


def kernel(name: str, phrasing: int) -> Measure:
    """How many lines the kernel of a call and its gradients has."""
    lines = compiled(name, phrasing)[0].ir.count("\n")
    return lambda: (lines, 0.0)


def seconds(name: str, phrasing: int) -> Measure:
    """Tracing and compiling for a single call and for many examples, with both calls."""

    def run() -> float:
        call, result = called(name, phrasing)
        call()
        return result

    return compilation(run)


def microseconds(name: str, phrasing: int) -> Measure:
    """The call with many examples."""
    call, result = called(name, phrasing)
    return repeated(call, lambda: result)
