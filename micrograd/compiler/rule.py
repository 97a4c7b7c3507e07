"""The rule of an optimizer in C: traced once, for one parameter, and made a loop over all.

What depends on the learning rate, the number of steps and the norm of the gradients alone is computed before the loop,
which is on vectors, with a parameter in each lane.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from micrograd.compiler.c import SCALAR, TOTAL, VECTOR, literal
from micrograd.compiler.statements import Statements
from micrograd.compiler.trace import Trace
from micrograd.engine import Value
from micrograd.interrupts import ensured


class Ruled(Protocol):
    """What generated code needs of an optimizer."""

    parameters: Sequence[Any]
    moments: Mapping[str, float]
    learning_rate: float
    steps: int

    def zero_grad(self) -> None:
        """Set all gradients to 0."""

    def rule(self) -> Callable[..., tuple[Any, ...]]:
        """A function from a parameter, its gradient and its moments to what it and they become."""

    def step(self) -> None:
        """Apply the rule to all parameters."""

    def clip_scale(self, norm: Any, max_norm: float) -> Any:
        """What gradients of this norm are multiplied by, so that it is `max_norm` at most."""


UPDATE = """/* A step with n of all parameters: 1, or 0 if one is infinite or NaN then, or an operation failed. */
static int update(double *p, double *g, double *m, long all, long n, wide rate, wide steps, wide norm)
{{
    (void)m; (void)all; (void)rate; (void)steps; (void)norm;
    W sums = {{0.0}};
    double sum = 0.0; /* of x - x, which is 0 for all that is finite */
{head}    long i = 0;
    for (; i + LANES <= n; i += LANES) {{
{vectors}        sums += {result} - {result};
    }}
    for (; i < n; i++) {{
{scalars}        sum += {result} - {result};
    }}
    for (long l = 0; l < LANES; l++)
        sum += sums[l];
    return sum == 0.0;
}}
"""


class Rule:
    """A traced rule: that of the optimizer's next steps, with the options it has now but for the learning rate.

    Parameters
    ----------
    optimizer
        What states the rule.
    max_norm
        What the norm of the gradients is scaled down to; None for no limit.

    Attributes
    ----------
    results
        The lines of what the parameter and its moments become; and its gradient, if that changes too.
    n_moments, n_changed
        How many moments there are, and how many of the first of them change.

    Raises
    ------
    TypeError
        If the rule gives something else, or not the same each time.
    """

    def __init__(self, optimizer: Ruled, max_norm: float | None) -> None:
        self.gradients: dict[int, int] = {}
        self.clips = max_norm is not None
        with _as_it_was(optimizer):
            (self.trace, self.results), again = [_traced(optimizer, max_norm, others) for others in (0.5, 2.0)]
        if _written(self.trace, self.results) != _written(*again):
            raise TypeError(
                f"the rule of {type(optimizer).__name__} is not the same each time: it draws random numbers, counts by "
                "itself, or looks at all parameters or moments. In C it may depend on the numbers it is given, on "
                'learning_rate, steps and options; train others with backend="python", or eagerly'
            )
        self.n_moments = len(optimizer.moments)
        changed = [k for k in range(self.n_moments) if self.trace.leaves.get(self.results[1 + k]) != ("x", 2 + k)]
        self.n_changed = max(changed, default=-1) + 1

    def c_source(self, *, all_finite: bool = False) -> str:
        """The function `update`: a step fails if a parameter is not finite then, or if `all_finite`, a moment."""
        trace, uniform = self.trace, self._uniform()
        varying = [id for id in trace.needed(self.results) if id not in uniform]
        before = {i for id in varying for i in trace.operands[id] if i in uniform and trace.operands[i]}
        before |= {id for id in self.results if id in uniform and trace.operands[id]}
        texts = [self._text(type, uniform, sorted(before), all_finite) for type in ("V", "double")]
        head = "".join(self._lines(SCALAR, "wide", uniform, sorted(before), "    ", True))
        return UPDATE.format(head=head, vectors=texts[0], scalars=texts[1], result="r0")

    def _text(self, type: str, uniform: set[int], before: list[int], all_finite: bool) -> str:
        """One round of the loop on numbers of this type."""
        vector = type == "V"
        places = ["p", "g", *(f"m + {k} * all" for k in range(self.n_moments))]
        load = "*(const W *)({} + i)" if vector else "*({} + i)"
        indent = "        "
        text = "".join(f"{indent}const {type} x{i} = {load.format(place)};\n" for i, place in enumerate(places))
        templates = VECTOR if vector else SCALAR
        text += "".join(self._lines(templates, type, uniform, before, indent, False))
        places.append(places.pop(1))
        for k, (place, id) in enumerate(zip(places, self.results, strict=False)):
            text += f"{indent}const {type} r{k} = {self._name(id, type, uniform)};\n"
            if k == 0 or k > self.n_moments or k <= self.n_changed:  # not a moment that stays as it is
                text += f"{indent}{load.replace('const ', '').format(place)} = r{k};\n"
                if k and all_finite:
                    text += f"{indent}{'sums' if vector else 'sum'} += r{k} - r{k};\n"
        return text

    def _lines(
        self, templates: Mapping[str, str], type: str, uniform: set[int], before: list[int], indent: str, head: bool
    ) -> Iterator[str]:
        """The statements of the loop, or those before it."""
        results = before if head else [*self.results, *before]
        for id, template, operands in Statements(self, results, templates, sums=True):
            if head or id not in uniform:
                text = template.format(*[self._name(operand, type, uniform) for operand in operands])
                yield f"{indent}const {type} t{id} = {text};\n"
                if self.trace.ops[id] not in TOTAL:
                    yield f"{indent}{'sums' if type == 'V' else 'sum'} += t{id} - t{id};\n"

    def _name(self, id: int, type: str, uniform: set[int]) -> str:
        constant = id in self.trace.constants
        array, i = self.trace.leaves.get(id, ("t", id))
        name = literal(self.trace.constants[id]) if constant else f"{array}{i}" if array in ("x", "t") else array
        if id not in uniform or type == "wide":
            return name
        return f"U({name})" if type == "V" else name if constant else f"(double){name}"

    def _uniform(self) -> set[int]:
        """The lines that are the same for all parameters."""
        uniform: set[int] = set()
        for id, operands in enumerate(self.trace.operands):
            if uniform.issuperset(operands) and self.trace.leaves.get(id, ("", 0))[0] != "x":
                uniform.add(id)
        return uniform


def _traced(optimizer: Ruled, max_norm: float | None, others: float) -> tuple[Trace, list[int]]:
    """What the rule does and the lines of what it gives, while all numbers that it should not look at are `others`."""
    trace = Trace()
    n, parameter = len(optimizer.parameters), Value(others)
    parameter.grad = others
    vars(optimizer).update(learning_rate=trace.leaf("rate"), steps=trace.leaf("steps"), parameters=[parameter] * n)
    vars(optimizer).update({name: [others] * n for name in optimizer.moments})
    x, grad, *moments = [trace.leaf("x", i) for i in range(2 + len(optimizer.moments))]
    if max_norm is not None:
        grad = grad * optimizer.clip_scale(trace.leaf("norm"), max_norm)
    numbers = optimizer.rule()(x, grad, *moments)
    if not isinstance(numbers, (tuple, list)) or len(numbers) != 1 + len(moments):
        kind, names = type(optimizer).__name__, ", ".join(["the parameter", *optimizer.moments])
        raise TypeError(f"the rule of {kind} gives {numbers!r:.80}: expected a tuple of {names}")
    results = [trace.result(number) for number in [*numbers, grad][: len(numbers) + (max_norm is not None)]]
    trace.close()
    return trace, results


def _written(trace: Trace, results: list[int]) -> str:
    """All of a trace, as text, in which NaN is NaN."""
    return repr((trace.ops, trace.operands, trace.constants, results))


@contextmanager
def _as_it_was(optimizer: Ruled) -> Iterator[None]:
    """After the block the optimizer has the attributes it had before."""
    attributes = vars(optimizer)
    before = dict(attributes)

    def leave() -> None:
        attributes.update(before)
        for name in attributes.keys() - before.keys():
            del attributes[name]

    with ensured(leave):
        yield
