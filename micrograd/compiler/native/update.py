"""The update rule of an optimizer in C: traced once, for one parameter, and run in a loop over all of them.

What depends only on the learning rate, the number of steps and the norm of the gradients is computed before the loop,
in doubles. gcc makes vectors of the loop.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import repeat
from operator import is_not
from typing import Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.redirect import Table, symbols
from micrograd.compiler.frontend.tracer import Trace, TraceError
from micrograd.compiler.passes.expressions import Node, expressions
from micrograd.compiler.targets.c import TOTAL, templates
from micrograd.compiler.targets.spelling import assignments, source
from micrograd.core.errors import shown
from micrograd.optim import Optimizer, check_result, clip_scale

ONLY = 'in C it may depend only on the numbers it is given and on options, and change nothing; try backend="python"'


class UpdateKernel:
    """The traced update rule of an optimizer, with all options but the learning rate as they are now.

    `trace` is the traced rule; it begins with clipping if the optimizer clips. `results` are its lines for the new
    parameter and moments. The lines in `uniform` are the same for all parameters: the nodes in `before` compute them
    once, and the nodes in `each` compute the rest. `moments` are the names of the moments. Anything else that the rule
    reads is constant.

    Raises TypeError if the rule does more than return these numbers, or is not the same for each parameter and step.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        check_rule(optimizer)
        self.clips = optimizer.clip_grad_norm is not None
        try:
            self.trace, self.results = _traced(copy(optimizer))
        except TraceError as error:
            raise TraceError(f"the rule of {type(optimizer).__name__} cannot be traced, {error}; {ONLY}") from error
        operands, xs = self.trace.operands, [line for line, (array, _) in self.trace.leaves.items() if array == "x"]
        self.uniform = {*range(len(operands))} - self.trace.dependent(xs)
        varying = [id for id in self.trace.live(self.results) if id not in self.uniform]
        used = {*self.results, *[i for id in varying for i in operands[id]]}
        nodes = expressions(self.trace, [*self.results, *sorted(id for id in used & self.uniform if operands[id])])
        self.before = [node for node in nodes if node.line in self.uniform]
        self.each = [node for node in nodes if node.line not in self.uniform]
        self.moments, self.learning_rate = list(optimizer.moments), optimizer.learning_rate

    def c_source(self, precision: Precision = DOUBLE) -> tuple[str, str]:
        """The function `update`, and what it computes before its loop, in doubles.

        A step fails if a parameter is not finite then, or in single precision, a moment.
        """
        name, words = partial(self.name, literal=precision.literal, cast="(real)"), templates(precision, vectors=False)
        places = [f"p[{k} * all + i]" for k in range(1 + len(self.moments))]
        lines = [f"const real x{i} = {place};" for i, place in enumerate([places[0], "g[i]", *places[1:]])]
        lines += self._checked("real", self.each, name, words)
        for k, (place, id) in enumerate(zip(places, self.results, strict=True)):
            if k == 0 or self.trace.leaves.get(id) != ("x", 1 + k):  # else a moment stays as it is
                lines += [f"const real r{k} = {name(id)};", f"next{place[1:]} = r{k};"]
                lines += [f"failed |= r{k} - r{k} != 0;"] * (k > 0 and precision != DOUBLE)
        in_doubles = partial(self.name, literal=DOUBLE.literal), templates(vectors=False)
        head = "".join(f"    {line}\n" for line in self._checked("double", self.before, *in_doubles))
        return source("update.c", HEAD=head, RULE="".join(f"        {line}\n" for line in lines)), head

    def _checked(self, type: str, nodes: Sequence[Node], *spelling: Any) -> list[str]:
        """Statements that compute numbers of a type, and note whether an operation fails."""
        may_fail = [node.line for node in nodes if self.trace.ops[node.line] not in TOTAL]
        return [*assignments(f"const {type}", nodes, *spelling), *(f"failed |= t{id} - t{id} != 0;" for id in may_fail)]

    def name(self, id: int, literal: Callable[[float], str], cast: str = "") -> str:
        """The name of a line in generated code, after the `cast` if it is the same for all parameters; for a constant,
        its `literal`.
        """
        if id in self.trace.constants:
            return literal(float(self.trace.constants[id]))
        array, i = self.trace.leaves.get(id, ("t", id))
        return (cast if id in self.uniform else "") + (f"{array}{i}" if array in ("x", "t") else array)


def check_rule(optimizer: Any) -> None:
    """Raise TypeError if an optimizer's steps may do more than apply its rule."""
    kind = type(optimizer).__name__
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer is {shown(optimizer)}: expected an Optimizer, such as optim.Adam(parameters)")
    if isinstance(getattr(type(optimizer), "learning_rate", None), property):
        raise TypeError(f"{kind} computes its learning_rate: make it a number, set directly or by a schedule")
    for name in ("step", "zero_grad"):
        if getattr(getattr(optimizer, name), "__func__", None) is not getattr(Optimizer, name):
            raise TypeError(f"{kind} defines its own {name}(): compiled training takes only steps that are in rule()")


def _traced(optimizer: Optimizer) -> tuple[Trace, tuple[int, ...]]:
    """The rule traced for one parameter: the trace, and the lines of its results. Raises TypeError if it does more.

    The attributes of the optimizer become symbols.
    """
    trace, kind = Trace(), type(optimizer).__name__
    everyone = trace.leaf("all")
    moments: dict[str, Any] = {name: [everyone] * len(optimizer.parameters) for name in optimizer.moments}
    given = {"learning_rate": trace.leaf("rate"), "steps": trace.leaf("steps"), **moments}
    vars(optimizer).update(given)
    before = dict(vars(optimizer))
    x, grad, *own = [trace.leaf("x", i) for i in range(2 + len(moments))]
    index = dict(zip(optimizer.parameters, range(len(optimizer.parameters)), strict=True))
    held = Table(index, lambda i: everyone, lambda i: everyone)
    with symbols(held):
        if optimizer.clip_grad_norm is not None:
            grad = grad * clip_scale(trace.leaf("norm"), optimizer.clip_grad_norm)
        update = optimizer.rule()
        numbers, *others = [rule(x, grad, *own) for rule in (update, update, optimizer.rule())]
    if trace.refused:  # also where the rule has caught it
        raise trace.refused
    check_result(optimizer, numbers)
    changed = [f"{kind}.{name}" for name, x in vars(optimizer).items() if before.get(name, everyone) is not x]
    of_each: dict[str, Any] = {f"{kind}.{name}": numbers for name, numbers in moments.items()}
    of_each |= {f"the {name} of a parameter": its.values() for name, its in held.numbers.items()}
    changed += [name for name, numbers in of_each.items() if any(map(is_not, numbers, repeat(everyone)))]
    if changed:
        raise TypeError(f"the rule of {kind} changes {changed[0]}: {ONLY}")
    results = trace.results(numbers)
    if any(results != trace.results(again) for again in others):
        raise TypeError(f"the rule of {kind} is not the same for each parameter and step: {ONLY}")
    if everyone.id in {*results, *[i for id in trace.live(results) for i in trace.operands[id]]}:
        raise TypeError(f"the rule of {kind} depends on all parameters, gradients or moments: {ONLY}")
    trace.close()
    return trace, results
