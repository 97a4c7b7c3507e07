"""Optimizers, to change parameters by their gradients so that a loss decreases; and schedules of the learning rate.

Formulas and defaults follow `torch.optim`. A parameter is anything with a number `data` and its gradient `grad`. Each
optimizer states its rule once, for one parameter: a step applies it to all, and the compiler turns it into a loop.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Self

from micrograd import scalar
from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.support.signals import set_data
from micrograd.support.trees import mapped, plain_numbers, replaced
from micrograd.support.validation import as_list, count, counted, flag, number, plain, positive, require_attributes

__all__ = [
    "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "Schedule", "clip_grad_norm", "constant", "cosine", "exponential",
    "linear", "step", "warmup",
]  # fmt: skip


Update = Callable[..., tuple[Any, ...]]
"""Takes a parameter's number, its gradient and its moments; returns its new number and moments."""

_share = partial(number, below=1)


def _shares(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name} is {shown(value)}: expected two numbers, such as (0.9, 0.999)")
    return tuple([_share(f"{name}[{i}]", beta) for i, beta in enumerate(value)])


@dataclass(init=False, repr=False, eq=False)
class Optimizer:
    """What all optimizers share: parameters, options that may be set between steps, and a state to save.

    Your own optimizer is a subclass with a `rule`, and with `moments` if it keeps numbers for each parameter:

        class Signed(Optimizer):
            def rule(self):
                return lambda x, grad: (x - self.learning_rate * scalar.where(grad > 0, 1, -1),)

    The options, at least a `learning_rate`, become attributes. With `clip_grad_norm`, a step uses the gradients scaled
    down to that norm. `moments` maps the name of each number kept for every parameter to its lower bound; they start at
    0. `checks` maps an option to a function that takes its name and value and returns what is stored. `steps` is the
    number of steps taken. Raises ValueError if there are no parameters or an option is out of range, TypeError if a
    parameter is not a Value.
    """

    moments: ClassVar[dict[str, float]] = {}
    checks: ClassVar[dict[str, Callable[[str, Any], Any]]] = {
        "learning_rate": number,
        "weight_decay": number,
        "clip_grad_norm": lambda name, value: None if value is None else number(name, value),
    }

    parameters: list[Value]
    learning_rate: float
    clip_grad_norm: float | None = field(default=None, kw_only=True)

    def __init__(self, parameters: Iterable[Value], *, clip_grad_norm: float | None = None, **options: Any) -> None:
        self.parameters = unique_leaves(parameters, at_least=1)
        self.steps = 0
        options["clip_grad_norm"] = clip_grad_norm
        self._options = tuple(options)
        vars(self).update(self._checked(options))
        zeros = [scalar.zero(parameter.data) for parameter in self.parameters]
        for name in self.moments:
            setattr(self, name, zeros[:])

    def __post_init__(self) -> None:
        """Check the options passed to the constructor that @dataclass writes for a subclass."""
        Optimizer.__init__(self, **{option.name: getattr(self, option.name) for option in fields(self)})

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "lr":  # no rule would read it
            raise AttributeError("an optimizer has no attribute lr: set its learning_rate")
        super().__setattr__(name, plain(value))  # a NumPy scalar would turn all parameters into NumPy scalars

    def __repr__(self) -> str:
        options = "".join(f", {name}={getattr(self, name)!r}" for name in self._options)
        return f"{type(self).__name__}({counted(len(self.parameters), 'parameter')}{options})"

    def rule(self) -> Update:
        """The function that the next step applies to each parameter.

        It computes with Python's operators and the functions of `scalar`, and may branch on options, but not on the
        learning rate or the number of steps: while it is compiled these are symbols. A rule that does more, such as
        looking at the gradients of all parameters, runs in Python.
        """
        raise NotImplementedError(f"{type(self).__name__} is an Optimizer that does not define rule()")

    def step(self) -> None:
        """Change all parameters by the rule, with gradients clipped to `clip_grad_norm`; or none, if there is an error.

        Raises TypeError if a gradient or what the rule returns is not a number, ValueError if a moment does not have a
        number for each parameter.
        """
        data, grads = (plain_numbers([getattr(p, name) for p in self.parameters]) for name in ("data", "grad"))
        if self.clip_grad_norm is not None:
            scale = clip_scale(_norm(grads), self.clip_grad_norm)
            grads = [grad * scale for grad in grads]
        check_moments(self, vars(self))
        rule = self._beside(data[0]).rule()
        changed = list(map(rule, data, grads, *[getattr(self, name) for name in self.moments]))
        check_result(self, changed[0])  # checking one is enough: they all come from the same rule
        data, *moments = map(list, zip(*changed, strict=True))
        state = dict(zip(self.moments, moments, strict=True), steps=self.steps + 1)
        set_data(self.parameters, data)
        vars(self).update(state)

    def _beside(self, x: Any) -> Self:
        """The optimizer; for a number of a registered kind, a copy with options that mix with it."""
        if scalar.registered(x) is None:
            return self
        twin = copy(self)
        for name in self._options:
            vars(twin)[name] = replaced(lambda option: scalar.option(option, x), getattr(self, name))
        return twin

    def zero_grad(self) -> None:
        """Set the gradient of each parameter to 0, since `backward` adds to it."""
        for parameter in self.parameters:
            parameter.grad = scalar.zero(parameter.data)

    def state_dict(self) -> dict[str, Any]:
        """Everything a step depends on besides the parameters, as a dict that JSON can hold (for floats)."""
        options = {name: mapped(plain, getattr(self, name)) for name in self._options}
        moments = {name: list(map(plain, getattr(self, name))) for name in self.moments}
        return {"optimizer": type(self).__name__, "steps": self.steps, **options, **moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state, options included, of an optimizer of the same class with as many parameters.

        Raises ValueError for any other state; then nothing has changed.
        """
        kind, expected = type(self).__name__, self.state_dict().keys()
        if not isinstance(state, dict) or state.keys() != expected or state["optimizer"] != kind:
            raise ValueError(f"not the state_dict() of {kind}: expected a dict of {', '.join(expected)}")
        options = self._checked({name: state[name] for name in self._options})
        check_moments(self, state)
        moments = {
            name: [number(f"{name}[{i}]", x, least, finite=False) for i, x in enumerate(state[name])]
            for name, least in self.moments.items()
        }
        vars(self).update(options, steps=count("steps", state["steps"], least=0), **moments)

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options as Python numbers. Raises ValueError if one of them is out of its range."""
        checks = self.checks
        return {name: checks[name](name, x) if name in checks else plain(x) for name, x in options.items()}


@dataclass(repr=False, eq=False)
class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum (Sutskever et al., 2013).

    A step keeps the fraction `momentum` of the previous direction and adds the gradient; after the first step, the
    gradient is reduced by the fraction `dampening`. `weight_decay` is the fraction of a parameter that is added to its
    gradient. `nesterov` looks one step ahead along the direction; it needs a momentum and no dampening.
    """

    moments: ClassVar[dict[str, float]] = {"velocity": -math.inf}
    checks = Optimizer.checks | {"momentum": number, "dampening": number, "nesterov": flag}

    learning_rate: float = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def rule(self) -> Update:
        """A step against the gradient, or against the running direction if there is a momentum, times the rate."""
        rate, momentum, decay, nesterov = self.learning_rate, self.momentum, self.weight_decay, self.nesterov
        share = scalar.where(self.steps == 0, 1, 1 - self.dampening) if self.dampening else 1

        def update(x: Any, grad: Any, velocity: Any) -> tuple[Any, Any]:
            if decay:
                grad = grad + decay * x
            if momentum:
                velocity = momentum * velocity + share * grad
                grad = grad + momentum * velocity if nesterov else velocity
            return x - rate * grad, velocity

        return update

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        options = super()._checked(options)
        if options["nesterov"] and (not options["momentum"] or options["dampening"]):
            raise ValueError("nesterov requires a momentum above 0 and a dampening of 0")
        return options


@dataclass(repr=False, eq=False)
class Adam(Optimizer):
    """Adam: steps of about the learning rate, from running means of the gradient and its square (Kingma and Ba, 2015).

    `betas` are the fractions of both means that a step keeps, `eps` is added to the root of the mean square before
    dividing by it, and `weight_decay` is as in `SGD`.
    """

    moments: ClassVar[dict[str, float]] = {"mean": -math.inf, "mean_square": 0.0}
    checks = Optimizer.checks | {"betas": _shares, "eps": positive}
    is_decoupled: ClassVar = False  # whether decay shrinks the parameter itself instead of adding to its gradient

    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def rule(self) -> Update:
        """A step of the learning rate times the mean gradient, divided by the root mean square."""
        (beta1, beta2), steps = self.betas, self.steps + 1
        new1, new2 = 1 - beta1, 1 - beta2
        scale = scalar.sqrt(1 - beta2**steps)  # both means start at 0, so they are too small by such factors
        rate, eps = self.learning_rate * scale / (1 - beta1**steps), self.eps * scale
        decay = self.weight_decay
        keep, decay = (1 - self.learning_rate * decay, 0) if self.is_decoupled else (1, decay)

        def update(x: Any, grad: Any, mean: Any, mean_square: Any) -> tuple[Any, Any, Any]:
            if decay:
                grad = grad + decay * x
            mean = beta1 * mean + new1 * grad
            mean_square = beta2 * mean_square + new2 * (grad * grad)
            return x * keep - rate * mean / (scalar.sqrt(mean_square) + eps), mean, mean_square

        return update


@dataclass(repr=False, eq=False)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    A step multiplies each parameter by 1 - learning_rate * weight_decay and leaves its gradient alone.
    """

    weight_decay: float = 1e-2

    is_decoupled = True


@dataclass(repr=False, eq=False)
class RMSprop(Optimizer):
    """RMSprop: the gradient divided by its root mean square (Hinton, 2012), optionally with momentum.

    `weight_decay` and `momentum` are as in `SGD`, `learning_rate` and `eps` as in `Adam`; `alpha` is the fraction of
    the mean square that a step keeps. `centered` divides by the standard deviation instead: the root of the mean square
    minus the square of the mean (Graves, 2013).
    """

    moments: ClassVar[dict[str, float]] = {"mean_square": 0.0, "velocity": -math.inf, "mean": -math.inf}
    checks = Optimizer.checks | {"alpha": _share, "eps": positive, "momentum": number, "centered": flag}

    learning_rate: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def rule(self) -> Update:
        """A step of the learning rate along the running direction of gradients over their root mean square."""
        rate, alpha, eps, decay, momentum = self.learning_rate, self.alpha, self.eps, self.weight_decay, self.momentum
        centered = self.centered

        def update(x: Any, grad: Any, mean_square: Any, velocity: Any, mean: Any) -> tuple[Any, Any, Any, Any]:
            grad = grad + decay * x if decay else grad
            square = mean_square = alpha * mean_square + (1 - alpha) * (grad * grad)
            if centered:
                mean = alpha * mean + (1 - alpha) * grad
                square = scalar.relu(mean_square - mean * mean)  # rounding may leave this below 0
            scaled = grad / (scalar.sqrt(square) + eps)
            velocity = momentum * velocity + scaled if momentum else scaled
            return x - rate * velocity, mean_square, velocity, mean

        return update


def clip_grad_norm(parameters: Iterable[Value], max_norm: float) -> Any:
    """Scale the gradients down so that their norm is at most `max_norm`, and return the norm before scaling.

    As in PyTorch, the factor is max_norm / (norm + 1e-6) if that is below 1. Raises ValueError if `max_norm` is
    negative or NaN or there are no parameters, TypeError if one of them is not a Value or its gradient not a number.
    """
    parameters, max_norm = unique_leaves(parameters, at_least=1), number("max_norm", max_norm, finite=False)
    norm = _norm(plain_numbers([p.grad for p in parameters]))
    scale = clip_scale(norm, max_norm)
    for p in parameters:
        p.grad *= scale
    return norm


def clip_scale(norm: Any, max_norm: float) -> Any:
    """The factor for gradients of this norm; NaN if the norm is NaN, so all gradients become NaN, as in PyTorch."""
    limit, norm = scalar.option(max_norm, norm), norm + scalar.option(1e-6, norm)
    return scalar.where(norm <= limit, 1, limit / norm)


def _norm(grads: list[Any]) -> Any:
    """The root of the sum of squares; for floats, even where a square overflows."""
    if not scalar.REGISTERED or all(scalar.registered(grad) is None for grad in grads):
        return math.hypot(*grads)
    return scalar.sqrt(scalar.total([grad * grad for grad in grads]))


def check_moments(optimizer: Any, moments: Mapping[str, Any]) -> None:
    """Raise ValueError unless `moments` has a number of each moment for each parameter of the optimizer."""
    for name in optimizer.moments:
        numbers, expected = moments.get(name, ()), len(optimizer.parameters)
        n = len(numbers) if hasattr(numbers, "__len__") else "no"
        if n != expected:
            raise ValueError(f"{name} has {n} numbers: expected {expected}, one for each parameter")


def check_result(optimizer: Any, result: Any) -> None:
    """Raise TypeError unless this is what a rule of the optimizer returns: a parameter's number and its moments."""
    kind = type(optimizer).__name__
    if not isinstance(result, (tuple, list)) or len(result) != 1 + len(optimizer.moments):
        names = ", ".join(["the parameter", *optimizer.moments])
        raise TypeError(f"the rule of {kind} returns {shown(result)}: expected a tuple of {names}")
    if not all(map(scalar.is_number, result)):
        raise TypeError(f"the rule of {kind} returns {shown(result)}: expected numbers (use micrograd.scalar)")


def unique_leaves(parameters: Iterable[Value], *, at_least: int = 0) -> list[Value]:
    """Each parameter once, in order. Raises TypeError or ValueError if they cannot be parameters."""
    given = as_list("parameters", parameters)
    if len(given) < at_least:
        raise ValueError("parameters is empty: expected the Values to change, such as model.parameters()")
    for parameter in given:
        if not hasattr(parameter, "grad"):
            raise TypeError(f"parameters holds {shown(parameter)}: expected Values, such as model.parameters()")
        if getattr(parameter, "_prev", ()):
            raise ValueError(f"parameters holds {shown(parameter)}, which is computed from others: expected leaves")
        if getattr(parameter, "_is_constant", False):
            raise ValueError(f"parameters holds {shown(parameter)}, a constant without gradients: use Value(v.data)")
    return list(dict.fromkeys(given))


# Schedules of the learning rate. In a loop of your own: optimizer.learning_rate = schedule(optimizer.steps)

Schedule = Callable[[int], float]
"""Takes the number of steps taken; returns the learning rate of the next."""


class _Schedule:
    """A schedule from this module. It is copied and pickled as the call that made it."""

    def __init__(self, make: Callable[..., Schedule], arguments: tuple[Any, ...], rate: Schedule) -> None:
        self._make, self.arguments, self._rate = make, arguments, rate

    def __call__(self, step: int) -> float:
        return self._rate(step)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._make, self.arguments

    def __repr__(self) -> str:
        return f"{self._make.__name__}({', '.join(map(repr, self.arguments))})"


def depends_on_step_only(schedule: Any) -> bool:
    """Whether the rates depend on the number of steps alone; a user's function may depend on anything."""
    return isinstance(schedule, _Schedule) and all(map(depends_on_step_only, filter(callable, schedule.arguments)))


def constant(learning_rate: float) -> Schedule:
    """The same rate at every step."""
    rate = number("learning_rate", learning_rate)
    return _Schedule(constant, (rate,), lambda step: rate)


def step(learning_rate: float, every: int, factor: float = 0.1) -> Schedule:
    """The rate, multiplied by `factor` every `every` steps."""
    rate, every, factor = number("learning_rate", learning_rate), count("every", every), number("factor", factor)
    return _Schedule(step, (rate, every, factor), lambda step: rate * factor ** (step // every))


def exponential(learning_rate: float, factor: float) -> Schedule:
    """The rate, multiplied by `factor` after each step."""
    rate, factor = number("learning_rate", learning_rate), number("factor", factor)
    return _Schedule(exponential, (rate, factor), lambda step: rate * factor**step)


def linear(learning_rate: float, steps: int, final: float = 0.0) -> Schedule:
    """From the rate to `final` in a straight line over `steps` steps, then constant."""
    rate, steps, final = number("learning_rate", learning_rate), count("steps", steps), number("final", final)
    return _Schedule(linear, (rate, steps, final), lambda step: rate + (final - rate) * (min(step, steps) / steps))


def cosine(learning_rate: float, steps: int, final: float = 0.0) -> Schedule:
    """From the rate to `final` along half a cosine over `steps` steps, then constant (Loshchilov and Hutter, 2017)."""
    rate, steps, final = number("learning_rate", learning_rate), count("steps", steps), number("final", final)

    def at(step: int) -> float:
        return final + (rate - final) * (1 + math.cos(math.pi * min(step, steps) / steps)) / 2

    return _Schedule(cosine, (rate, steps, final), at)


def warmup(schedule: Schedule, steps: int) -> Schedule:
    """From near 0 to the first rate of `schedule` in a straight line over `steps` steps, then the schedule itself."""
    require_attributes("schedule", schedule, ["__call__"], "a schedule, such as constant(0.1)")
    steps = count("steps", steps)

    def at(step: int) -> float:
        return schedule(0) * (step + 1) / (steps + 1) if step < steps else schedule(step - steps)

    return _Schedule(warmup, (schedule, steps), at)
