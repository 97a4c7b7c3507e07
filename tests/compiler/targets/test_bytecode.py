"""Programs as data. With the fixture `backend`, the interpreter also runs what other tests compile."""

from micrograd.compiler.frontend.operations import OPERATIONS
from micrograd.compiler.targets.bytecode import CODES
from micrograd.scalar import FUNCTIONS


def test_the_interpreter_knows_every_operation_of_a_trace():
    known = {op.lower() for op in CODES} | {"take_at", "combination", "scatter"}  # TAKE, COMBINE and ADD_AT
    assert OPERATIONS.keys() - known == {name for name, function in FUNCTIONS.items() if function.composed}
