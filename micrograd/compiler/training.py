"""Training as generated code: parameters, gradients and moments lie in buffers from the first step to the last.

In C, a loop of its own draws the batches and applies the optimizer's rule (driver.py, rule.py); in Python, the rule is
applied as it stands. Both take steps until one is not whole: then an operation may have failed, or a number is not
finite. Such a step is taken back, and taken once more on Values, which raises what it raises there.
"""

import ctypes
import math
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from operator import is_
from typing import TYPE_CHECKING, Any, Self, overload

from micrograd import checks
from micrograd.compiler.batch import Examples, Packed
from micrograd.compiler.driver import Driver, Job, Program, is_known
from micrograd.compiler.elsewhere import buffers
from micrograd.compiler.precision import DOUBLE, REMEDY, Precision
from micrograd.compiler.rule import Rule, Ruled
from micrograd.compiler.toolchain import say_once
from micrograd.engine import Value, mean
from micrograd.interrupts import entering, uninterrupted

if TYPE_CHECKING:
    from micrograd.compiler import Compiled

CHANGING = ("learning_rate", "steps")  # what a rule is given anew at each step


class Buffers:
    """The numbers of a training, and the Values and the optimizer that they are of.

    Attributes
    ----------
    numbers
        The parameters, then their first moments, and so on, then the gradients.
    places
        Where among the parameters those of the optimizer are.
    """

    def __init__(self, parameters: Sequence[Value], optimizer: Ruled, precision: Precision = DOUBLE) -> None:
        self.parameters, self.optimizer, self.precision = parameters, optimizer, precision
        position = {id(parameter): i for i, parameter in enumerate(parameters)}
        missing = [parameter for parameter in optimizer.parameters if id(parameter) not in position]
        if missing:
            raise ValueError(
                f"the optimizer changes {missing[0]!r:.80}, which is not among the parameters of the compiled "
                "function: give compile all that the optimizer changes"
            )
        self.places = [position[id(parameter)] for parameter in optimizer.parameters]
        self.n = len(parameters)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Take all numbers over, and give them back after the block."""
        n, attributes = self.n, vars(self.optimizer)
        data = self.precision.array([p.data for p in self.parameters], "a parameter")
        before = [p.grad or 0.0 for p in self.parameters]  # or None before the first backward pass
        grads = self.precision.array(before, "the gradient of a parameter")
        numbers = data + self.precision.zeros(n * len(self.optimizer.moments)) + grads
        with buffers(self.parameters, memoryview(numbers)[:n], memoryview(numbers)[-n:]):
            self.numbers, self.data, self.grads = numbers, memoryview(numbers)[:n], memoryview(numbers)[-n:]
            self.moments = [Moments(self, k * n) for k in range(1, 1 + len(self.optimizer.moments))]
            try:
                self.take_moments()
                yield
            finally:  # what the user has assigned since the last step stays
                shown = {name: attributes[name] for name in self.optimizer.moments}
                attributes.update({name: list(x) for name, x in shown.items() if isinstance(x, Moments)})

    def check_parameters(self) -> None:
        """Raise ValueError if the optimizer has others by now."""
        if [id(self.parameters[place]) for place in self.places] != list(map(id, self.optimizer.parameters)):
            raise ValueError(
                "the optimizer has been given other parameters while it is trained: leave the training block and begin "
                "another for them, or train eagerly"
            )

    def take_moments(self) -> None:
        """Take over the moments that the optimizer has been given; from here on it shows ours."""
        attributes, n = vars(self.optimizer), len(self.places)
        ours = dict(zip(self.optimizer.moments, self.moments, strict=True))
        given = {name: list(attributes[name]) for name, moment in ours.items() if attributes[name] is not moment}
        for name, numbers in given.items():
            if len(numbers) != n:
                raise ValueError(f"{name} has {len(numbers)} numbers: expected {n}, one a parameter")
        for name, numbers in given.items():
            ours[name][:] = numbers
            attributes[name] = ours[name]

    def ranges(self) -> "array[int]":
        """The parameters that the optimizer changes, in ranges: the first, and how many they are."""
        found = array("l")
        for place in sorted(self.places):
            if found and found[-2] + found[-1] == place:
                found[-1] += 1
            else:
                found.extend((place, 1))
        return found


class Moments(MutableSequence[float]):
    """A moment of all parameters of an optimizer, in the order it has them."""

    def __init__(self, of: Buffers, start: int) -> None:
        self._numbers, self._precision = of.numbers, of.precision
        self._places = [start + place for place in of.places]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, i: int) -> float: ...
    @overload
    def __getitem__(self, i: slice) -> list[float]: ...
    def __getitem__(self, i: int | slice) -> float | list[float]:
        if isinstance(i, slice):
            return [self._numbers[place] for place in self._places[i]]
        return float(self._numbers[self._places[i]])

    def __setitem__(self, i: Any, number: Any) -> None:
        if isinstance(i, slice):
            for place, one in list(zip(self._places[i], self._precision.array(number, "a moment"), strict=True)):
                self._numbers[place] = one
        else:
            [self._numbers[self._places[i]]] = self._precision.array([number], "a moment")

    def __delitem__(self, i: Any) -> None:
        raise TypeError("there is one of each parameter's moments, no more and no less")

    def insert(self, i: int, number: float) -> None:
        """Raise TypeError, as deleting does."""
        del self[i]

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # what a copy of the optimizer has


class Seen:
    """The attributes of an optimizer as a step has found them, but for those that change at each step."""

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        seen = {name: value for name, value in attributes.items() if name not in CHANGING}
        self._n, self._names, self._values = len(attributes), list(seen), list(seen.values())
        self._contents = [x for name, x in seen.items() if isinstance(x, (dict, list, set)) and name != "parameters"]
        self._copies = _copied(self._contents)

    def still(self, attributes: Mapping[str, Any]) -> bool:
        """Whether these are the same objects, with the same contents."""
        same = len(attributes) == self._n and all(map(is_, map(attributes.get, self._names), self._values))
        return same and (not self._contents or _equal(self._contents, self._copies))


def _copied(value: Any) -> Any:
    """Lists, dicts and sets, and those within them, as copies that stay as they are."""
    if isinstance(value, dict):
        return {key: _copied(x) for key, x in value.items()}
    return type(value)(map(_copied, value)) if type(value) in (list, tuple, set) else value


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # by an array within, another than before
        return False


class Training:
    """A block in which an optimizer's steps are generated code: what `Compiled.training` returns, and documents."""

    def __init__(self, compiled: "Compiled", optimizer: Ruled, clip_grad_norm: float | None) -> None:
        check_rule(optimizer)
        self._compiled, self._optimizer = compiled, optimizer
        self._clip_grad_norm = None if clip_grad_norm is None else checks.number("clip_grad_norm", clip_grad_norm)
        self._buffers = Buffers(compiled.parameters, optimizer, compiled.precision)
        self._turn = threading.RLock()  # of the thread that takes a step
        self._block = ExitStack()
        self._inside = False
        self._in_c = True  # as far as the functions are
        self._loops: dict[bool, CLoop | PythonLoop] = {}  # in C, and in Python
        self._options: dict[str, Any] = {}  # which the loops are made for
        self._seen = Seen({})
        self._latest: Examples | None = None
        self._one = array("l", [0]), array("d", [0.0]), array("d", [0.0])  # size, rate and loss of a step

    def __repr__(self) -> str:
        return f"<training of {self._compiled!r} by {self._optimizer!r}>"

    def __enter__(self) -> Self:
        with entering(self):
            self._block.enter_context(self._buffers.in_use())
            self._inside = True
        return self

    def __exit__(self, *error: object) -> None:
        with uninterrupted(), self._turn:
            self._inside = False
            self._loops, self._latest, self._seen = {}, None, Seen({})
            self._block.close()

    def __call__(self, *batches: Any) -> float:
        """Take a step along the gradient of the mean loss of a batch, which is returned; threads take turns.

        Parameters
        ----------
        batches
            What `pack` has made of a batch; or a list or array of examples for each argument, of one shape or several.

        Raises
        ------
        FloatingPointError
            If the loss, or a parameter after the step, is infinite or NaN. The parameters are those before the step.
        ValueError, TypeError
            If these are no examples of the function's arguments. What else the function raises comes out as it is.
        RuntimeError
            If the block has not begun, or has ended.
        """
        with self._turn:
            if not self._inside:
                raise RuntimeError("a step is taken within its block: with fast.training(optimizer) as step: step(...)")
            examples = self._latest
            if examples is None or len(batches) != 1 or batches[0] is not examples.packs[0]:
                examples = self._latest = self.examples(*batches)
            order = None if len(examples.packs) == 1 else array("l", range(len(examples)))
            sizes, rates, losses = self._one
            sizes[0], rates[0] = len(examples), self._optimizer.learning_rate
            if self.steps(examples, order, sizes, rates, losses):
                return losses[0]
            return self._on_values(examples)

    def examples(
        self, *batches: Any, size: int | None = None, told: Callable[[int, int], None] = lambda shapes, of: None
    ) -> Examples:
        """Examples to take steps on, with all that batches of this size need compiled; by default, of all of them.

        `told` is called with the number of shapes that are compiled, and how many there are to compile.
        """
        return self._compiled._examples(batches, size, told)

    def learns(self, examples: Examples, parameters: Sequence[int]) -> bool:
        """Whether the loss of examples of every shape depends on one of the parameters."""
        return all(self._compiled._learns(pack.shapes, parameters) for pack in examples.packs)

    def numbers(self) -> "array[float]":
        """The parameters' numbers."""
        return array(self._buffers.precision.code, self._buffers.data)

    def values(self, examples: Examples) -> list[float]:
        """The function's value for each example."""
        parameters = self._buffers.data.tolist()
        of_shapes = [self._compiled._values(parameters, pack) for pack in examples.packs]
        return [of_shapes[kind][place] for kind, place in zip(examples.kind, examples.place, strict=True)]

    def shuffled(self, n: int, times: int, rng: Any) -> "array[int]":
        """The numbers below n in random order, so many times: what `rng.shuffle` makes of each list of them."""
        loop = self._loops.get(True)
        if is_known(rng) and isinstance(loop, CLoop):
            return loop.driver.shuffled(n, times, rng)
        order = array("l")
        for _ in range(times):
            numbers = list(range(n))
            rng.shuffle(numbers)
            order.extend(numbers)
        return order

    def steps(
        self,
        examples: Examples,
        order: "array[int] | None",
        sizes: "array[int]",
        rates: "array[float]",
        losses: "array[float]",
    ) -> int:
        """Take a step for each size. Returns how many are whole: fewer than asked for if the one after these is not.

        Parameters
        ----------
        examples
            Where batches are drawn from.
        order
            The numbers of the examples, one batch after the other; None for all as they come.
        sizes, rates
            The number of examples and the learning rate of each step.
        losses
            Becomes the mean loss of each batch.
        """
        if not self._seen.still(vars(self._optimizer)) or len(self._optimizer.parameters) != len(self._buffers.places):
            self._take_changes()
        before = self._optimizer.steps
        self._loop(examples).steps(order, sizes, rates, losses)
        return self._optimizer.steps - before

    def _take_changes(self) -> None:
        """Take over what has been assigned to the optimizer since the last step. Raises ValueError if it cannot be."""
        attributes = vars(self._optimizer)
        self._buffers.check_parameters()
        self._buffers.take_moments()
        kept = {*CHANGING, "parameters", *self._optimizer.moments}
        options = {name: _copied(value) for name, value in attributes.items() if name not in kept}
        if not _equal(options, self._options):
            self._loops, self._options = {}, options
        self._seen = Seen(attributes)

    def _loop(self, examples: Examples) -> "CLoop | PythonLoop":
        """The loop in the language that the examples' programs are in; with "auto", in Python where C is not to be."""
        in_c = self._in_c and self._compiled._in_c(examples)
        try:
            if in_c not in self._loops:
                loop = CLoop if in_c else PythonLoop
                self._loops[in_c] = loop(self._compiled, self._buffers, self._clip_grad_norm)
            self._loops[in_c].point_at(examples)
        except Exception as error:  # whatever the optimizer's rule raises where it is traced
            if not in_c or self._compiled.backend == "c":
                raise
            say_once(f"the steps of the training are taken in Python, since C is not to be had for them: {error}")
            self._in_c = False
            return self._loop(examples)
        return self._loops[in_c]

    def _on_values(self, examples: Examples) -> float:
        """The same step as the engine takes it, or its error."""
        optimizer, function = self._optimizer, self._compiled._function
        optimizer.zero_grad()
        loss = mean([function(*examples.arguments(i)) for i in range(len(examples))])
        _check_finite("the loss", [loss.data])
        loss.backward()
        if self._clip_grad_norm is not None:
            scale = optimizer.clip_scale(math.hypot(*[p.grad for p in optimizer.parameters]), self._clip_grad_norm)
            for parameter in optimizer.parameters:
                parameter.grad *= scale
        before, state = self._buffers.numbers[:], dict(vars(optimizer))
        with uninterrupted():
            try:
                optimizer.step()
                _check_finite("a parameter", self._buffers.data)
            except BaseException:
                self._buffers.numbers[:] = before
                vars(optimizer).update(state)
                raise
        self.say_doubles()
        return float(loss.data)

    def say_doubles(self) -> None:
        """Say, in single precision, that the engine has taken a step."""
        if self._buffers.precision != DOUBLE:
            say_once(
                f"a step was taken by the engine, in doubles, since single precision is too short for it: {REMEDY}"
            )


class CLoop:
    """Steps in C."""

    def __init__(self, compiled: "Compiled", buffers: Buffers, max_norm: float | None) -> None:
        self._compiled = compiled
        self._attributes = vars(buffers.optimizer)
        self.driver = Driver(Rule(buffers.optimizer, max_norm), buffers.precision)
        self._examples: Examples | None = None  # which the job has
        n_before = buffers.n * (1 + self.driver.rule.n_changed)
        room = buffers.precision.zeros(n_before + buffers.n)
        self._kept = buffers.numbers, room, buffers.ranges()  # which the job points at
        numbers, before, ranges = (kept.buffer_info()[0] for kept in self._kept)
        gradients = numbers + buffers.precision.size * (len(buffers.numbers) - buffers.n)
        n_ranges = len(self._kept[2]) // 2
        self._job = Job(
            p=numbers, g=gradients, before=before, ranges=ranges, n=buffers.n, n_before=n_before, n_ranges=n_ranges
        )
        self._reference = (ctypes.addressof(self._job),)
        self._precision = buffers.precision
        self._work: dict[Any, array[int]] = {}  # room for each library

    def steps(
        self, order: "array[int] | None", sizes: "array[int]", rates: "array[float]", losses: "array[float]"
    ) -> None:
        """Take the steps; the optimizer counts them."""
        job, attributes = self._job, self._attributes
        job.order = order.buffer_info()[0] if order is not None else None
        job.sizes, job.rates, job.losses = (a.buffer_info()[0] for a in (sizes, rates, losses))
        job.steps, job.taken = len(sizes), attributes["steps"]
        done = map(self.driver.train, self._reference)
        # Counted as they are taken, in C, where no Ctrl-C comes between.
        deque(map(attributes.__setitem__, ("steps",), map(job.taken.__add__, done)), maxlen=0)
        for library in self._work:
            library.check_interrupt()

    def point_at(self, examples: Examples) -> None:
        """Let the job have the programs and room for these examples."""
        if examples is self._examples:
            return
        programs = (Program * len(examples.packs))(*[self._program(pack, examples) for pack in examples.packs])
        n = len(examples)
        y, at = self._precision.zeros(n), array("l", [0]) * n
        self._room = programs, y, at  # which the job points at
        job = self._job
        job.programs, job.n_programs = ctypes.addressof(programs), len(programs)
        job.y, job.at = y.buffer_info()[0], at.buffer_info()[0]
        job.kind, job.place = examples.kind.buffer_info()[0], examples.place.buffer_info()[0]
        self._examples = examples

    def _program(self, pack: Packed, examples: Examples) -> Program:
        """What computes the examples of a shape, and the room it works in."""
        library = self._compiled._library(pack, examples)
        if library not in self._work:
            self._work[library] = array("b", bytes(library.sizes.room))
        return Program(library.function, ctypes.addressof(pack.pointers), self._work[library].buffer_info()[0])


class PythonLoop:
    """Steps in generated Python, and the rule as it stands."""

    def __init__(self, compiled: "Compiled", buffers: Buffers, max_norm: float | None) -> None:
        self._compiled, self._buffers, self._max_norm = compiled, buffers, max_norm
        self._changed = set(buffers.places)

    def point_at(self, examples: Examples) -> None:
        """Take the next steps on these examples."""
        self._examples = examples

    def steps(
        self, order: "array[int] | None", sizes: "array[int]", rates: "array[float]", losses: "array[float]"
    ) -> None:
        """Take the steps; the optimizer counts them."""
        examples = self._examples
        numbers = iter(range(len(examples)) if order is None else order)
        rows = [pack.rows() for pack in examples.packs]
        for step, size in enumerate(sizes):
            batch: list[list[Any]] = [[] for _ in rows]
            for number in islice(numbers, size):
                batch[examples.kind[number]].append(rows[examples.kind[number]][examples.place[number]])
            self._buffers.optimizer.learning_rate = rates[step]
            try:
                losses[step] = self._step(batch, size)
            except (ArithmeticError, ValueError):
                return  # what it is comes out where the step is taken on Values

    def _step(self, batch: Sequence[Sequence[Any]], size: int) -> float:
        """The loss of a batch, after a step. Raises an error if the step would not be whole."""
        buffers, optimizer, n = self._buffers, self._buffers.optimizer, self._buffers.n
        numbers = buffers.numbers.tolist()
        parameters: list[float] = numbers[:n]
        gradients: Sequence[float] = [0.0 if i in self._changed else grad for i, grad in enumerate(buffers.grads)]
        total = 0.0
        for pack, examples_of_shape in zip(self._examples.packs, batch, strict=True):
            if examples_of_shape:
                backend = self._compiled._in_python(pack)
                outputs, gradients = backend.gradients(parameters, gradients, 1.0 / size, examples_of_shape)
                total += sum(outputs)
        _check_finite("the loss", [total])
        grads = [gradients[place] for place in buffers.places]
        if self._max_norm is not None:
            scale = optimizer.clip_scale(math.hypot(*grads), self._max_norm)
            grads = [scale * grad for grad in grads]
        for place, grad in zip(buffers.places, grads, strict=True):
            buffers.numbers[place - n] = grad  # where the rule may look
        numbers[-n:] = gradients
        columns = [[parameters[place] for place in buffers.places], grads, *buffers.moments]
        kept = range(1 + len(buffers.moments))
        for place, grad, changed in zip(buffers.places, grads, map(optimizer.rule(), *columns), strict=True):
            for k, number in zip(kept, changed, strict=True):
                numbers[place + k * n] = number
            numbers[place - n] = grad
        _check_finite("a parameter", numbers[:n])
        deque(
            chain(
                map(buffers.numbers.__setitem__, (slice(None),), (array(buffers.numbers.typecode, numbers),)),
                map(vars(optimizer).__setitem__, ("steps",), (optimizer.steps + 1,)),
            ),
            maxlen=0,
        )  # in C, where no Ctrl-C comes between
        return total / size


def check_rule(optimizer: Any) -> None:
    """Raise TypeError if the steps of an optimizer are not those of its rule, or it states none."""
    kind, names = type(optimizer).__name__, ("rule", "step", "zero_grad")
    for name in names:
        if not hasattr(optimizer, name):
            raise TypeError(f"{kind} has no {name}(): compiled training takes an Optimizer, which states its rule()")
    if isinstance(getattr(type(optimizer), "learning_rate", None), property):
        raise TypeError(
            f"{kind} computes its learning_rate, which compiled training would not: let it be a number, to be set or "
            "given by a schedule, or train eagerly"
        )
    optimizer.rule()  # or NotImplementedError
    owners = [vars(optimizer), *map(vars, type(optimizer).__mro__)]
    rule, *others = [next(i for i, owner in enumerate(owners) if name in owner) for name in names]
    for name, i in zip(names[1:], others, strict=True):
        if i <= rule:
            code = getattr(owners[i][name], "__code__", None)
            line = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
            raise TypeError(
                f"{kind} has a {name}() of its own{line}, which compiled training would not call: "
                "let rule() state all that a step does, or train eagerly"
            )


def _check_finite(name: str, numbers: Any) -> None:
    for number in numbers:
        if not math.isfinite(number):
            raise FloatingPointError(
                f"{name} is {number!r}: the parameters are those before this step; "
                "try a lower learning rate, or inputs on a smaller scale"
            )
