"""The compiler's intermediate representation: assignments and loops over arrays, without a word of any language.

A kernel is a list of steps. Passes make it from a trace (passes/), and a target prints it. `show` prints it for people
and tests, who read it as `fast.ir`.

The arrays of a kernel: "p", the parameters; "x", the inputs of one example; "seed"; "c", a table of constants; "g", the
gradients; "y", the results; "t0", "t1" and so on, intermediate results; "h", numbers computed before the loop over
examples, and behind them "d", sums over examples; "u", inputs that all examples share; "block", the factors of
products. A constant has no array: its reference is "=" and the number.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple


class Ref(NamedTuple):
    """An element of an array: `base`, and for each loop around, the outermost first, its round times a stride.

    If a loop does not advance evenly, the reference has the `Offsets` of all its rounds in place of a stride.
    """

    array: str
    base: int = 0
    strides: tuple[Any, ...] = ()


Offsets = tuple[int, ...]


class Term(NamedTuple):
    """The product of one or two factors, to be added or subtracted; or after ">", one that replaces a smaller total."""

    sign: str
    factors: tuple[Ref, ...]


class Sum(NamedTuple):
    """Terms, and loops of terms, added from left to right; or the largest of them, if all have the sign ">"."""

    terms: "tuple[Term | Loop, ...]"


class Call(NamedTuple):
    """An operation, by its name in the trace, on references and other operations; "take" may have a loop of values."""

    op: str
    operands: tuple[Any, ...]


class Assign(NamedTuple):
    """Sets an element."""

    target: Ref
    value: "Expression"


class Accumulate(NamedTuple):
    """Adds to a gradient: if several examples are computed at once, their total."""

    target: Ref
    value: "Expression"


class Scatter(NamedTuple):
    """Adds a value to one of the `size` gradients in a row, the one at `position`, by the row's last stride."""

    row: Ref
    size: int
    position: Ref
    value: Ref


class Skip(NamedTuple):
    """Ends the round, unless this number is 0 for one of the examples that are computed."""

    number: Ref


class Loop(NamedTuple):
    """Steps, terms of a sum, or a reference, repeated for a number of rounds.

    If it is `parallel`, its rounds may run in any order, but may add to the same sums. C marks a loop only if no round
    accesses what another one sets. `in_order` says that a round adds several terms to a variable. In a `layer`, each
    round adds to its own number the products of a row of weights with numbers that all rounds share.

    In a case of a switch or a triangle, `rounds` may be a Ref without an array: as an index, it varies with the rounds
    around it.
    """

    rounds: Any
    body: "tuple[Any, ...]"
    parallel: bool = False
    in_order: bool = False
    layer: bool = False

    @property
    def varies(self) -> bool:
        """Whether its number of rounds varies with the rounds around it."""
        return type(self.rounds) is Ref

    @property
    def may_skip(self) -> bool:
        """Whether one of its steps is a Skip."""
        return any(isinstance(step, Skip) for step in self.body)


class Switch(NamedTuple):
    """A loop that runs one of several cases in each round, as `order` says. Each case counts its own rounds."""

    order: tuple[int, ...]
    cases: "tuple[tuple[Any, ...], ...]"


ADDED_TO = frozenset("gd")  # by each example: what is computed for these is added to what is there
ARRAYS = frozenset((*"pxcgythdu", "block"))  # after storage has put t0, t1, ... into t; other names are variables
Expression = Ref | Sum | Call
Step = Assign | Accumulate | Scatter | Skip | Loop | Switch
Kernel = list[Step]


def general(op: str) -> str:
    """The operation of a special case: of a power to a constant, such as "**0.5", or of a quotient."""
    return "**" if op.startswith("**") else "/" if op == "quotient" else op


def start(terms: Sequence[Any]) -> Ref:
    """What the first of the terms is added to, or compared with, and which it leaves as it is."""
    first = terms[0]
    return start(first.body) if isinstance(first, Loop) else Ref("=-inf" if first.sign == ">" else "=-0.0")


def adding(target: Ref, terms: "Sequence[Term | Loop]") -> Assign:
    """A step that adds terms to a number, or compares them with it and keeps the largest."""
    sign = ">" if start(terms).array == "=-inf" else "+"
    return Assign(target, Sum((Term(sign, (target,)), *terms)))


def is_variable(ref: Ref) -> bool:
    """Whether this is a variable, such as v0, or sum0 in which a sum is added up, instead of an element of an array."""
    return ref.array.startswith(("v", "sum"))


def refs(part: Any, rounds: tuple[int, ...] = ()) -> Iterator[tuple[Ref, tuple[int, ...]]]:
    """All references in a part of a kernel, in order, with the rounds of the loops around each."""
    if type(part) is Ref:
        yield part, rounds
    elif type(part) is Loop:
        for inner in part.body:
            yield from refs(inner, (*rounds, most_rounds(part.rounds, rounds)))
    elif type(part) is Switch:
        for i, case in enumerate(part.cases):
            yield from refs(case, (*rounds, part.order.count(i)))
    elif type(part) is Scatter:
        yield part.row, (*rounds, part.size)
        yield from ((number, rounds) for number in part[2:])
    else:
        for inner in part:
            if type(inner) is Ref:  # a call less for each, as in `replace`
                yield inner, rounds
            elif isinstance(inner, tuple):
                yield from refs(inner, rounds)


def most_rounds(rounds: int | Ref, around: tuple[int, ...]) -> int:
    """The number of rounds of a loop; the largest if it varies with the rounds of the loops `around` it."""
    return rounds if isinstance(rounds, int) else span(rounds, around)[1]


def innermost(step: Any, rounds: tuple[int, ...] = ()) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """The steps in a step that are not loops, in order, with the rounds of the loops around each."""
    if isinstance(step, Loop):
        for inner in step.body:
            yield from innermost(inner, (*rounds, most_rounds(step.rounds, rounds)))
    else:
        yield step, rounds


def calls(part: Any) -> set[str]:
    """The operations in a part of a kernel."""
    inner = [calls(each) for each in part if isinstance(each, tuple) and type(each) is not Ref]
    return set().union({part.op} if isinstance(part, Call) else (), *inner)


def span(ref: Ref, rounds: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest index that a reference reaches in loops with these rounds."""
    low = high = ref.base
    for n, stride in zip(rounds, ref.strides, strict=False):
        if not isinstance(stride, int):
            low, high = low + min(stride), high + max(stride)
        elif stride > 0:
            high += (n - 1) * stride
        else:
            low += (n - 1) * stride
    return low, high


def offset(stride: int | Offsets, i: int) -> int:
    """How far round i of a loop is from the first."""
    return i * stride if isinstance(stride, int) else stride[i]


def replace(part: Any, change: Callable[[Ref], Any], varies: bool = False) -> Any:
    """The part with each of its references replaced, in the order of `refs`.

    The rounds of a loop are replaced before its body if they vary or may vary (`varies`), as a reference without an
    array, and stay one. The rounds of loops of references stay.
    """
    if type(part) is Ref:
        return change(part)
    if type(part) is Loop:
        rounds = part.rounds
        if part.varies or (varies and type(part.body[0]) is not Ref):
            found = change(rounds if part.varies else Ref("", rounds))
            rounds = found._replace(array="") if any(found.strides) else found.base
        return Loop(rounds, replace(part.body, change, varies), *part[2:])
    parts = [
        # A call less for each reference: the passes spend a tenth of their time here
        change(inner) if type(inner) is Ref else replace(inner, change, varies) if isinstance(inner, tuple) else inner
        for inner in part
    ]
    return tuple.__new__(type(part), parts)


def of_round(body: Any, i: int, depth: int) -> Any:
    """Round i of the loop with this body at this depth, as steps outside that loop. References to constants stay."""

    def fixed(ref: Ref) -> Ref:
        array, base, strides = ref
        return Ref(array, base + offset(strides[depth], i), strides[:depth] + strides[depth + 1 :]) if strides else ref

    return replace(body, fixed)


def length(kernel: Sequence[object]) -> int:
    """The number of lines of a kernel. For its tables, a switch has another line for every four rounds."""
    return sum(
        len(step.order) // 4 + length([*chain(*step.cases)])
        if isinstance(step, Switch)
        else 1 + length(step.body if isinstance(step, Loop) else ())
        for step in kernel
    )


def show(kernel: Sequence[Step]) -> str:
    """The kernel as text: a line for each assignment, with `i`, `j`, `k`, ... for the rounds of the loops around it."""
    return "".join(f"{line}\n" for step in kernel for line in _lines(step, 0))


def _lines(step: Step, depth: int) -> Iterator[str]:
    if isinstance(step, Loop):
        yield f"for {_counter(depth)} in {_index(step.rounds)}:"
        for inner in step.body:
            yield from (f"    {line}" for line in _lines(inner, depth + 1))
    elif isinstance(step, Switch):
        yield f"switch {list(step.order)}:"
        for i, case in enumerate(step.cases):
            yield f"    case {i}, for {_counter(depth)}:"
            yield from (f"        {line}" for inner in case for line in _lines(inner, depth + 1))
    elif isinstance(step, Skip):
        yield f"if {_text(step.number)}: continue"
    elif isinstance(step, Scatter):
        *outer, stride = step.row.strides
        row = _text(step.row._replace(strides=tuple(outer)))
        yield f"{row}[::{stride}][{_text(step.position)}] += {_text(step.value)}"
    else:
        value = _sum(step.value.terms, depth) if isinstance(step.value, Sum) else _bare(_text(step.value))
        yield f"{_text(step.target)} {'=' if isinstance(step, Assign) else '+='} {value}"


def _counter(depth: int) -> str:
    return chr(ord("i") + depth) if depth < 18 else f"i{depth}"


def _bare(text: str) -> str:
    """An operation without the parentheses around it."""
    return text[1:-1] if text[0] == "(" else text


INFIX = frozenset(("+", "-", "*", "/", "%", "**", "<", "<=", ">", ">=", "==", "!=", "and", "or"))


def _text(value: Any) -> str:
    if isinstance(value, Call):
        operands = list(map(_text, value.operands))
        sign = general(value.op)
        if sign in INFIX:
            return f"({operands[0]} {sign} {operands[1]})"
        return f"{sign}({', '.join(map(_bare, operands))})"
    if isinstance(value, Loop):
        return f"{_text(value.body[0])} for {_counter(len(value.body[0].strides) - 1)} in {value.rounds}"
    if value.array[0] == "=":
        return str(value.array[1:])
    return f"{value.array}[{_index(value)}]"


def _index(value: int | Ref) -> str:
    if isinstance(value, int):
        return str(value)
    factors = {1: "", -1: "-"}
    terms = [f"{factors.get(s, s)}{_counter(d)}" for d, s in enumerate(value.strides) if s and isinstance(s, int)]
    terms += [f"{list(s)}[{_counter(d)}]" for d, s in enumerate(value.strides) if not isinstance(s, int)]
    if value.base or not terms:
        terms.insert(0, str(value.base))
    return "+".join(terms).replace("+-", "-")


def _sum(terms: Sequence[Term | Loop], depth: int) -> str:
    texts = []
    is_largest = start(terms).array == "=-inf"
    for term in terms:
        if isinstance(term, Loop):
            of_all = f"({_sum(term.body, depth + 1)} for {_counter(depth)} in {_index(term.rounds)})"
            texts.append(f"largest{of_all}" if is_largest else f"+ sum{of_all}")
        elif is_largest:
            texts.append(_text(term.factors[0]))
        else:
            texts.append(f"{term.sign} {' * '.join(map(_text, term.factors))}")
    if is_largest:
        return f"largest({', '.join(texts)})" if len(texts) > 1 else texts[0]
    return " ".join(texts).removeprefix("+ ")
