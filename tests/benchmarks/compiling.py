"""The time to compile several kinds of programs, the size of their C, and the time of a call.

Each is compiled with an empty cache, and again from the cache, for the calls that it is meant for: one example at a
time, or a batch. A call is forward and backward; if a program has many results, forward only. It is
`fast.backward(packed)`, which reads the parameters from Values and adds to their gradients, and the generated function
alone, from buffer to buffer, like tensors in PyTorch.

Before loops were rolled into nests, with the same gcc on a similar machine: the GPT was 25,016 lines of C that took gcc
8 s, with sums of products 31,513 lines and 13 s in all; the recurrent network 111,113 lines and 49 s; the matrix
product 8,391 lines and 1.7 s; the convolution 7,517 lines and 2.2 s; 784-128-10 5 to 6 s in all. 10,000 outputs took
gcc 55 s, and 2,000 arguments 44 s.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.benchmarks import arrays, gpt, pytorch, values
from tests.benchmarks.charts import times
from tests.benchmarks.data import images, numbers, points, set_weights
from tests.benchmarks.harness import Benchmark, Contestant, Measure, Measured, compilation, repeated, timed, training
from tests.benchmarks.mlp import function_alone

STAGES = ("tracing", "statements, loops and C", "the C compiler")
AGAIN = "again, from the cache"


class Program(NamedTuple):
    """A function of Values with an example of its arguments, and a batch of these, an iterable for each argument."""

    function: Callable[..., Any]
    example: tuple[Any, ...]
    parameters: Sequence[Any]
    batch: tuple[Any, ...]


def network(sizes: list[int], n: int, loss: Callable[[Any, Any], Any]) -> Program:
    """A network with relus, and n points or images."""
    from micrograd import nn

    model = nn.MLP(sizes[0], sizes[1:], activation="relu")
    set_weights(model.parameters(), sizes)
    batch = points(n) if sizes[-1] == 1 else images(n, sizes[0], sizes[-1])
    return Program(lambda x, y: loss(model(x), y), (batch[0][0], batch[1][0]), model.parameters(), batch)


def hinge() -> Program:
    """The network of the moons."""
    return network([2, 16, 16, 1], 100, lambda output, y: (1 - y * output).relu())


def classes(sizes: list[int]) -> Program:
    """A network with a cross-entropy."""
    from micrograd import losses

    return network(sizes, 32, losses.cross_entropy)


def language(fused: bool) -> Program:
    """The GPT, by fused operations or by sums of products."""
    from micrograd import Value, take

    def softmax(logits: Sequence[Any]) -> list[Any]:
        powers = [logit.exp() for logit in logits]
        return [power / sum(powers) for power in powers]

    def cross_entropy(logits: Sequence[Any], target: Any) -> Any:
        return -take(softmax(logits), target).log()

    plain = gpt.Operations(Value, take, values.dot, values.mean, softmax, cross_entropy)
    network = gpt.our_gpt() if fused else gpt.GPT(plain)
    name = gpt.NAME[:-1], gpt.NAME[1:]
    return Program(
        lambda tokens, following: network.loss(network(tokens), following),
        name,
        network.parameters(),
        tuple([part] for part in name),
    )


def matrix(rows: int, columns: int) -> list[list[Any]]:
    """Of Values."""
    from micrograd import Value

    entries = list(map(Value, numbers(rows * columns)))
    return [entries[i : i + columns] for i in range(0, rows * columns, columns)]


def recurrent() -> Program:
    """200 steps of a recurrent network with 16 hidden numbers."""
    from micrograd import dot, mean

    hidden, (inputs, biases) = matrix(16, 16), matrix(2, 16)

    def function(xs: Sequence[Any]) -> Any:
        state = [0.0 * xs[0]] * 16
        for x in xs:
            state = [(dot(row, state) + w * x + b).tanh() for row, w, b in zip(hidden, inputs, biases, strict=True)]
        return mean([h * h for h in state])

    xs = numbers(200)
    return Program(function, (xs,), [w for row in (*hidden, inputs, biases) for w in row], ([xs],))


def product() -> Program:
    """A product of matrices."""
    from micrograd import dot, mean

    a, b = matrix(30, 30), matrix(30, 30)

    def function(x: Any) -> Any:
        return mean([(dot(row, column) * x).tanh() for row in a for column in zip(*b, strict=True)])

    return Program(function, (1.0,), [w for row in a + b for w in row], ([1.0],))


def convolution() -> Program:
    """An image of 16x16 and eight kernels of 3x3."""
    from micrograd import dot, mean

    kernels = matrix(8, 9)

    def function(image: Sequence[Sequence[Any]]) -> Any:
        patches = [[x for row in image[i : i + 3] for x in row[j : j + 3]] for i in range(14) for j in range(14)]
        return mean([dot(kernel, patch).relu() for kernel in kernels for patch in patches])

    pixels = numbers(256, 1.0)
    image = [pixels[i : i + 16] for i in range(0, 256, 16)]
    return Program(function, (image,), [w for kernel in kernels for w in kernel], ([image],))


def chain() -> Program:
    """20,000 steps."""
    from micrograd import Value

    c, d = Value(0.9999), Value(0.01)

    def function(x: Any) -> Any:
        for _ in range(20_000):
            x = x * c + d
        return x

    return Program(function, (1.0,), [c, d], ([1.0],))


def outputs() -> Program:
    """A function that returns 10,000 numbers."""
    from micrograd import Value

    w, xs = Value(0.5), numbers(10_000)
    return Program(lambda xs: [x * w for x in xs], (xs,), [w], ([xs],))


def arguments() -> Program:
    """A function of 2,000 numbers."""
    import micrograd

    w, xs = micrograd.Value(0.5), numbers(2_000)
    return Program(lambda *xs: micrograd.sum([x * x * w for x in xs]), tuple(xs), [w], tuple([x] for x in xs))


PROGRAMS: dict[str, tuple[Callable[..., Program], tuple[Any, ...]]] = {
    "MLP 2-16-16-1, 100 points": (hinge, ()),
    "MLP 64-32-10, cross-entropy, 32 images": (classes, ([64, 32, 10],)),
    "MLP 784-128-10, cross-entropy, 32 images": (classes, ([784, 128, 10],)),
    "GPT, fused": (language, (True,)),
    "GPT, sums of products": (language, (False,)),
    "recurrent network, 200 steps": (recurrent, ()),
    "30x30 matrix product": (product, ()),
    "convolution, 16x16 by eight 3x3": (convolution, ()),
    "20,000 steps y = y * c + d": (chain, ()),
    "10,000 outputs": (outputs, ()),
    "2,000 arguments": (arguments, ()),
}


PYTORCH: dict[str, tuple[Callable[..., Measure], tuple[Any, ...]]] = {
    "MLP 2-16-16-1, 100 points": (arrays.pytorch_hinge, ("gradient", [2, 16, 16, 1], 100)),
    "MLP 64-32-10, cross-entropy, 32 images": (arrays.pytorch_cross_entropy, ("gradient", [64, 32, 10], 32)),
    "MLP 784-128-10, cross-entropy, 32 images": (arrays.pytorch_cross_entropy, ("gradient", [784, 128, 10], 32)),
    "GPT, fused": (gpt.pytorch_task, ("gradient",)),
    "GPT, sums of products": (gpt.pytorch_task, ("gradient",)),
    "recurrent network, 200 steps": (pytorch.recurrent, ()),
    "30x30 matrix product": (pytorch.product, ()),
    "convolution, 16x16 by eight 3x3": (pytorch.convolution, ()),
    "20,000 steps y = y * c + d": (pytorch.chain, ()),
}


def benchmarks() -> list[Benchmark]:
    """Of each program how large it is, how long its stages take, and a call."""
    return [
        benchmark
        for name in PROGRAMS
        for benchmark in (
            Benchmark(
                f"size: {name}",
                (Contestant("C", size, (name, "C")),),
                (Contestant("operations", size, (name, "operations")),),
                unit="lines",
                rounds=1,
            ),
            Benchmark(
                f"trace and compile: {name}",
                (Contestant("in all", compile_program, (name,)),),
                (
                    *(Contestant(stage, compile_stage, (name, stage)) for stage in STAGES),
                    Contestant(AGAIN, compile_again, (name,)),
                ),
                rounds=3,
            ),
            calls(name),
        )
    ]


def calls(name: str) -> Benchmark:
    """What a call takes, against the engine, and against PyTorch where that is a program that people write in it."""
    ours, others = [Contestant("compiled to C", call, (name,))], [Contestant("eager", call_eager, (name,))]
    if name in PYTORCH:
        ours.append(Contestant("the function alone", call_alone, (name,)))
        others.append(Contestant("PyTorch", *PYTORCH[name]))
    return Benchmark(f"a call: {name}", tuple(ours), tuple(others), rounds=3)


def conclude(measured: list[Measured]) -> Iterator[str]:
    """A line for each program."""
    for name, sizes, seconds, call in zip(PROGRAMS, measured[::3], measured[1::3], measured[2::3], strict=True):
        stages = ", ".join(f"{stage} {seconds.medians[stage]:.2f}" for stage in (*STAGES, AGAIN))
        others = ", ".join(
            f"{other} takes {times(call.ratio(other, to='compiled to C'))} times as long"
            for other in ("eager", "PyTorch")
            if other in call.medians
        )
        yield (
            f"{name}: {sizes.medians['operations']:,.0f} operations, {sizes.medians['C']:,.0f} lines of C, "
            f"{seconds.medians['in all']:.2f} s to compile ({stages}), {call.medians['compiled to C'] * 1e6:,.0f} us "
            f"a call; {others}."
        )


def made(name: str) -> Program:
    """The program of that name."""
    function, options = PROGRAMS[name]
    return function(*options)


def compiled(program: Program) -> Any:
    """The program in C, for a call with its batch."""
    import micrograd

    function, example, parameters, batch = program
    n = len(batch[0])
    return micrograd.compile(function, example, parameters=parameters, backend="c", batch_size=n)


def graph_of(program: Program) -> Any:
    """The traced program."""
    from micrograd.compiler.frontend.graph import Graph
    from micrograd.support.collector import gc_paused
    from micrograd.support.trees import shape_of

    with gc_paused():  # as it is compiled
        return Graph(program.function, [shape_of(argument) for argument in program.example], program.parameters)


def source_of(program: Program, graph: Any) -> str:
    """Its C."""
    from micrograd.compiler import passes
    from micrograd.compiler.native.library import tile_size
    from micrograd.compiler.targets.c import library_source
    from micrograd.support.collector import gc_paused

    tile = tile_size(len(program.batch[0]))
    with gc_paused():
        return library_source(graph, passes.program(graph, graph.outputs, graph.parameter_gradients or []), tile=tile)


def size(name: str, what: str) -> Measure:
    """The number of operations, or of lines of C."""
    program = made(name)
    graph = graph_of(program)
    lines = source_of(program, graph).count("\n") if what == "C" else len(graph.trace.ops)
    return lambda: (lines, 0.0)


def compile_program(name: str) -> Measure:
    """Tracing and compiling, with nothing in the cache."""
    program = made(name)
    return compilation(lambda: float(bool(compiled(program))))


def compile_again(name: str) -> Measure:
    """The same with the library in the cache."""
    program = made(name)
    compiled(program)
    return timed(lambda: float(bool(compiled(program))))


def compile_stage(name: str, stage: str) -> Measure:
    """One of the stages of that."""
    from micrograd.compiler.native.toolchain import build

    program = made(name)
    if stage == STAGES[0]:
        return compilation(lambda: float(bool(graph_of(program))))
    graph = graph_of(program)
    if stage == STAGES[1]:
        return compilation(lambda: float(bool(source_of(program, graph))))
    source = source_of(program, graph)
    return compilation(lambda: float(bool(build(source))))


def call(name: str) -> Measure:
    """Forward and backward of the batch, or forward of a program with many results."""
    program = made(name)
    fast = compiled(program)
    packed = fast.pack(*program.batch)
    if name == "10,000 outputs":
        return repeated(lambda: fast.map(packed), lambda: float(sum(fast.map(packed)[0])))
    return _gradient(program, lambda: float(fast.backward(packed)))


def call_alone(name: str) -> Measure:
    """The same by the generated function alone."""
    program = made(name)
    fast = compiled(program)
    return function_alone(fast, fast.pack(*program.batch))


def call_eager(name: str) -> Measure:
    """The same with the engine."""
    from micrograd import mean

    program = made(name)

    def forward() -> list[Any]:
        return [program.function(*arguments) for arguments in zip(*program.batch, strict=True)]

    def backward() -> float:
        loss = mean(forward())
        loss.backward()
        return float(loss.data)

    if name == "10,000 outputs":
        return repeated(forward, lambda: float(sum(y.data for y in forward()[0])))
    return _gradient(program, backward)


def _gradient(program: Program, backward: Callable[[], float]) -> Measure:
    """Forward and backward, with the gradients in the Values."""

    def restart() -> None:
        for parameter in program.parameters:
            parameter.grad = 0.0

    return training("gradient", backward, backward, restart, lambda: [p.grad for p in program.parameters])
