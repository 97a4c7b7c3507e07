"""Generated Python: to be read, in one assignment a line, with nothing in it that the user wrote."""

import ast
import io
import keyword
import math
import re
import tokenize

import micrograd
from micrograd import Value, dot, scalar
from tests.helpers import grads
from tests.operations import OPERATIONS


def test_small_whole_powers_are_written_as_the_language_does():
    fast = micrograd.compile(lambda x: [x**n for n in range(1, 11)], (1.0,), backend="python")
    assert [f"x0 ** {n}.0" in fast.source for n in range(1, 11)] == [False, *[True] * 8, False]
    assert "power(x0, 10.0)" in fast.source
    assert [f"= ({' * '.join(['x[0]'] * n)});" in fast.c_source for n in (2, 3)] == [True] * 2
    assert fast.c_source.count("= pow(x[0], ") == 7


def neuron():
    w1, w2, b = parameters = [Value(0.5), Value(-0.25), Value(0.1)]
    return parameters, lambda x: dot([w1, w2], x, b).tanh()


def test_the_source_runs_elsewhere_and_gives_the_same_numbers():
    parameters, function = neuron()
    fast = micrograd.compile(function, ([1.0, 2.0],), parameters=parameters, backend="python")
    namespace = {"tanh": math.tanh, "exp": math.exp}
    exec(fast.source, namespace)
    numbers = [parameter.data for parameter in parameters]
    assert namespace["forward"](numbers, [3.0, 4.0]) == [fast([3.0, 4.0])]
    value, gradient = fast.value_and_grad([3.0, 4.0])
    assert namespace["value_and_grad"](numbers, [3.0, 4.0]) == (value, gradient)
    fast.backward([[3.0, 4.0]])
    assert namespace["backward"](numbers, [0.0] * 3, 1.0, [[3.0, 4.0]]) == ([value], grads(parameters))


def everything(xs):
    """A function with every operation in it."""
    total = 0.0
    for k, operation in enumerate(OPERATIONS):
        total = total + operation.apply(*xs[k])
    return total


def test_the_source_is_assignments_one_a_line():
    example = [list(operation.points[0]) for operation in OPERATIONS]
    tree = ast.parse(micrograd.compile(everything, (example,), backend="python").source)
    lines = set()
    assert [type(node) for node in tree.body] == [ast.FunctionDef] * 3
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            assert len(node.targets) == 1
            assert node.lineno == node.end_lineno
            assert node.lineno not in lines
            lines.add(node.lineno)
    assert len(lines) > 100


def test_nothing_that_the_user_wrote_gets_into_the_source():
    evil = "\n    import os\n    os.abort()  # '''\"\"\"*/ "
    p, c = Value(2.0, label=evil), Value(3.0, label=evil)
    p.__dict__[evil] = evil

    def own(x):
        def _backward(grad):
            x.grad += grad

        return Value(x.data, (x,), evil, _backward, label=evil)

    function = lambda x: own(everything(x) * p * c)  # noqa: E731
    function.__name__ = function.__qualname__ = evil
    example = [list(operation.points[0]) for operation in OPERATIONS]
    fast = micrograd.compile(function, (example,), parameters=[p], backend="python")
    outside = re.sub(r"/\*.*?\*/", "", fast.c_source, flags=re.DOTALL)  # of comments, where labels are
    for source in (fast.source, outside):
        assert "abort" not in source
    for token in tokenize.generate_tokens(io.StringIO(fast.source).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            assert re.fullmatch(
                r"d?[pgxt]\d*|seed|outputs|examples|append|reversed|forward|backward|value_and_grad|"
                r"inf|nan|abs|largest|power|take",
                token.string,
            ) or token.string in scalar.FUNCTIONS  # fmt: skip
        elif token.type == tokenize.STRING:
            assert token.string.startswith('"""')


def test_the_generated_code_cannot_reach_the_builtins():
    fast = micrograd.compile(lambda x: x, (1.0,), backend="python")
    functions = fast._code[((),)]._functions
    assert fast(2.0) == 2.0
    assert set(functions["forward"].__globals__["__builtins__"]) == {"abs", "range", "reversed", "zip"}
