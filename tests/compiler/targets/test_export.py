"""Exported C: strict C99 with the numbers of the engine, and names and headers that programs can use."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import micrograd
from micrograd import Value, take
from micrograd.compiler.native import toolchain
from micrograd.compiler.passes import lower
from tests.helpers import NESTS, assert_close, eager, has_compiler, large, needs_compiler, products
from tests.operations import OPERATIONS

CALLER, TWO = (Path(__file__).with_name(name) for name in ("caller.c", "two.c"))


def run_exported(fast, directory, x, outputs, parameters, differentiable=True, flags=(), real="double"):
    """The numbers that a small program gets from the exported file; the gradients are those of two calls."""
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    fast.export_c(directory / "model.c")
    sizes = {"INPUTS": len(x), "OUTPUTS": outputs, "PARAMETERS": parameters, "SIZE": max(1 + len(x), outputs)}
    defined = [f"-D{name}={size}" for name, size in {"REAL": real, **sizes}.items()] + ["-DBACKWARD"] * differentiable
    command = [*toolchain.require_compiler().command, "-std=c99", "-ffp-contract=off", *flags, "-I.", *defined, CALLER]
    return compile_and_run(directory, *command, "model.c", numbers=x)


def compile_and_run(directory, *command, numbers=()):
    """What a program prints for the numbers, once it is compiled without a warning."""
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-o", "program", "-lm"]
    subprocess.run([*command, *flags], cwd=directory, check=True)
    program = [directory / "program", *map(repr, numbers)]
    return list(map(float, subprocess.run(program, capture_output=True, check=True).stdout.split()))


def test_an_exported_network_is_strict_c99_and_gives_the_same_numbers(tmp_path):
    model, loss, batch = large(60, 20)
    fast = micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend="python")
    value, gradient = eager(loss, batch[0])
    numbers = run_exported(fast, tmp_path, batch[0], 1, len(model.parameters()))
    assert_close(numbers, [value, value, *gradient, *(2 * parameter.grad for parameter in model.parameters())])
    text = (tmp_path / "model.c").read_text()
    assert text == fast.c_source
    assert (tmp_path / "model.h").read_text() in text


SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def sanitizers(tmp_path_factory):
    """The flags for a compiler that watches what memory is used and what C leaves undefined."""
    program = tmp_path_factory.mktemp("sanitizers") / "program"
    program.with_suffix(".c").write_text("int main(void) { return 0; }\n")
    command = toolchain.require_compiler().command if has_compiler() else ()
    for line in ([*command, *SANITIZERS, f"{program}.c", "-o", program], [program]):
        if not command or subprocess.run(line, capture_output=True).returncode:
            pytest.skip("there is no C compiler with sanitizers")
    return SANITIZERS


@pytest.mark.parametrize("dot", [micrograd.dot, products])
@pytest.mark.parametrize("function", NESTS)
def test_exported_nests_keep_to_their_arrays_and_to_what_c_defines(tmp_path, monkeypatch, sanitizers, function, dot):
    monkeypatch.setattr(lower, "LINES", 40)  # so that functions share temporaries
    ws = [[Value(math.sin(9 * i + j)) for j in range(9)] for i in range(9)]
    parameters, x = [w for row in ws for w in row], [0.1 * i for i in range(9)]
    fast = micrograd.compile(lambda xs: function(ws, xs, dot), (x,), parameters=parameters, backend="python")
    assert "i1 < " in fast.c_source
    numbers = run_exported(fast, tmp_path, x, 1, len(parameters), flags=sanitizers)
    value, gradient = eager(lambda xs: function(ws, xs, dot), x)
    assert_close(numbers, [value, value, *gradient, *(2 * parameter.grad for parameter in parameters)])


def test_an_exported_function_may_use_every_operation_and_many_constants(tmp_path):
    point = [x for operation in OPERATIONS for x in operation.points[0]]

    def everything(xs):
        each = iter(xs)
        results = [operation.apply(*[next(each) for _ in range(operation.arity)]) for operation in OPERATIONS]
        results.append(take([k % 7 for k in range(20)], (xs[0] > 0) * 19))  # not a copy on the stack
        return [*results, *[xs[0] * (k + 0.1) for k in range(100)], (xs[0] > 0) * xs[1], 1e-310, math.inf, math.nan]

    fast = micrograd.compile(everything, (point,), backend="python")
    expected = [v.data if isinstance(v, Value) else v for v in everything([Value(x) for x in point])]
    numbers = run_exported(fast, tmp_path, point, len(expected), 0, differentiable=False)
    assert numbers == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert fast.c_source.count("static const real forward_one_c[] = {") == 1
    assert "static real remainder_(" in fast.c_source
    assert " = take_at(&forward_one_c[0], 1, 20, " in fast.c_source
    assert "there are none" in fast.c_source
    assert "backward" not in fast.c_source


def test_an_item_of_a_row_without_a_gradient_leaves_no_unused_variable(tmp_path):
    fast = micrograd.compile(
        lambda x: micrograd.maximum(x[0].sin(), x[0].floor(), x[1]), ([0.0, 0.0],), parameters=[], backend="python"
    )
    assert run_exported(fast, tmp_path, [1.0, 2.0], 1, 0) == [2.0, 2.0, 0.0, 1.0]


def test_the_exported_weights_are_those_of_now_to_the_last_bit():
    p = [Value(0.1), Value(-1e-310), Value(-0.0), Value(math.inf), Value(-math.inf), Value(math.nan), Value(3)]
    fast = micrograd.compile(lambda x: micrograd.sum(p) * x, (1.0,), parameters=p, backend="python")
    array = fast.c_source[fast.c_source.index("const real model_parameters[] = {") :]
    array = array[array.index("{") + 1 : array.index("}")]
    assert array.replace("\n", "").replace(" ", "") == "0.1,(-1e-310),-0.0,INFINITY,(-INFINITY),NAN,3.0"
    p[0].data = 0.7
    assert "    0.7,\n" in fast.c_source


def test_labels_stand_beside_the_weights_and_end_no_comment(tmp_path):
    labels = ["rate of decay", "", "*/ int i; /*", "\u03b8\n??/", "\\", "/", "*", "x" * 99]
    p = [Value(float(i), label=label) for i, label in enumerate(labels)]
    fast = micrograd.compile(lambda x: micrograd.sum(p) * x, (1.0,), parameters=p)
    lines = fast.c_source.partition("model_parameters[] = {\n")[2].splitlines()
    assert lines[:5] == [
        "    /* rate of decay */ 0.0,",
        "    1.0,",
        r"    /* \x2a/ int i; /\x2a */ 2.0,",
        r"    /* \u03b8\n??/ */ 3.0,",
        r"    /* \\ */ 4.0,",
    ]
    assert run_exported(fast, tmp_path, [1.0], 1, len(p), differentiable=True)[0] == sum(range(8))


def exported(directory, name, factor=2.0):
    w = Value(factor)
    fast = micrograd.compile(lambda x: (w * x).sigmoid() * x, (1.0,), parameters=[w], backend="python")
    fast.export_c(directory / name)


@needs_compiler
@pytest.mark.parametrize("plus", [False, True], ids=["C", "C++"])
def test_several_exported_functions_make_one_program(tmp_path, plus):
    exported(tmp_path, "one.c", 2.0)
    exported(tmp_path, "the_other.c", 3.0)
    shutil.copy(TWO, tmp_path / ("main.cc" if plus else "main.c"))
    command = toolchain.require_compiler().command
    objects = ["one.o", "the_other.o"]
    subprocess.run([*command, "-std=c99", "-c", "one.c", "the_other.c"], cwd=tmp_path, check=True)
    if plus and not shutil.which("c++"):
        pytest.skip("there is no C++ compiler here")
    main = ["c++", "main.cc"] if plus else [*command, "-std=c99", "main.c"]
    numbers = compile_and_run(tmp_path, *main, *objects)
    expected = [eager(lambda x, w=w: (w * x).sigmoid() * x, 0.5)[0] for w in (2.0, 3.0)]
    assert numbers[:2] == pytest.approx(expected, rel=1e-12)
    assert numbers[2] == pytest.approx(eager(lambda w: (w * 0.5).sigmoid() * 0.5, 3.0)[1], rel=1e-12)


@pytest.mark.parametrize("file", ["net.c", "Net_1.c", "a_b.c", "for.c", "mathematics.c"])
def test_the_names_in_an_exported_file_begin_with_the_files(tmp_path, file):
    exported(tmp_path, file)
    name = Path(file).stem
    source = (tmp_path / file).read_text(encoding="ascii")
    header = (tmp_path / file).with_suffix(".h").read_text()
    assert source.startswith(header)
    for part in (source, header):
        assert set(re.findall(r"\w+(?=_forward\(|_backward\(|_parameters\[)", part)) == {name}
    assert {path.name for path in tmp_path.iterdir()} == {file, f"{name}.h"}


@pytest.mark.parametrize(
    ("file", "name"),
    [("my-net.v2.c", "my_net_v2"), ("a b.c", "a_b"), ("2d.c", "model_2d"), ("_a__b_.c", "a_b"), ("größe.c", "gr_e"),
     ("+.c", "model"), ("été.c", "t")],
)  # fmt: skip
def test_a_name_that_c_cannot_do_with_is_refused_and_the_name_that_is_given_instead_works(tmp_path, file, name):
    with pytest.raises(ValueError, match=rf"single underscores: call it '{name}'$"):
        exported(tmp_path, file)
    assert list(tmp_path.iterdir()) == []
    exported(tmp_path, f"{name}.c")


@pytest.mark.parametrize("name", ["model.h", "model.H", "model.cpp", "model.C", "model"])
def test_a_source_is_not_written_where_its_header_goes_or_as_another_language(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name} is not the name of a C source: give one .* such as .*model\.c"):
        exported(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc measures the stack")
def test_the_stack_that_an_exported_file_says_it_needs_is_what_it_needs_at_least(tmp_path):
    model, loss, batch = large(20, 10)
    fast = micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend="python")
    fast.export_c(tmp_path / "model.c")
    subprocess.run(["gcc", "-O2", "-fstack-usage", "-c", "model.c"], cwd=tmp_path, check=True)
    usage = {}
    for line in (tmp_path / "model.su").read_text().splitlines():
        place, size, _ = line.split("\t")
        usage[place.rpartition(":")[2]] = int(size)
    said = re.findall(r"needs ([\d,]+) bytes of the stack", fast.c_source)
    for kind, size in zip(["forward", "backward"], said, strict=True):
        assert usage[f"model_{kind}"] >= int(size.replace(",", "")) >= usage[f"model_{kind}"] - 8192
    assert usage["model_forward"] < usage["model_backward"]


def test_the_header_documents_arguments_and_results():
    example = (1.0, [[1.0, 2.0, 3.0]] * 2, [], [1.0, 2.0])
    fast = micrograd.compile(lambda a, b, n, c: [[a, b[0][1]], c], example, backend="python")
    assert "     x[0]: argument 1\n" in fast.c_source
    assert "x[1] to x[6]: argument 2, of shape (2, 3)\n" in fast.c_source
    assert "argument 3" not in fast.c_source
    assert "x[7] to x[8]: argument 4\n" in fast.c_source
    assert "receives the output, of size 4, of shape (2, 2); it must not overlap p or x" in fast.c_source
