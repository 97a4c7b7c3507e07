"""Optimizers, which change parameters by their gradients so that a loss gets smaller, and schedules of their rate.

Formulas and defaults are those of `torch.optim`. A parameter is anything with a number `data` and its gradient `grad`.
Each optimizer states its rule once, for one parameter: a step applies it to all, and the compiler makes a loop of it.
A schedule is a function from the number of steps taken to a learning rate, to be applied by whoever takes the steps:

    schedule = warmup(cosine(0.1, steps=1000), steps=50)
    optimizer.learning_rate = schedule(optimizer.steps)
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial, wraps
from itertools import chain, repeat
from typing import Any, ClassVar, ParamSpec, Protocol

from micrograd import scalar
from micrograd.checks import count, listed, number, plain

__all__ = [
    "SGD", "Adam", "AdamW", "Optimizer", "Schedule", "clip_grad_norm", "constant", "cosine", "exponential", "linear",
    "step", "warmup",
]  # fmt: skip


class Parameter(Protocol):
    """What an optimizer needs of a Value."""

    data: Any
    grad: Any


Update = Callable[..., tuple[Any, ...]]
"""From the number in a parameter, its gradient and its moments, to what the number and the moments become."""


class Optimizer:
    """What all optimizers share: parameters, options that may be set between steps, and a state to save.

    An optimizer of your own is a subclass with a `rule`, and with `moments` if it keeps numbers for each parameter:

        class Signed(Optimizer):
            def rule(self):
                return lambda x, grad: (x - self.learning_rate * scalar.where(grad > 0, 1, -1),)

    A step computes all that it changes before it changes anything. So one that fails leaves the parameters as they
    were, and Ctrl-C finds them, and the moments, all before or all after a step.

    Parameters
    ----------
    parameters
        The Values to change.
    options
        The numbers that the rule depends on, as attributes: a `learning_rate` at least.

    Attributes
    ----------
    moments
        What is kept for each parameter from step to step, at first 0: the names, and the least that each may be.
    steps
        The number of steps taken.
    """

    moments: ClassVar[dict[str, float]] = {}

    learning_rate: float
    weight_decay: float

    def __init__(self, parameters: Iterable[Parameter], **options: Any) -> None:
        self.parameters = _unique(parameters)
        self.steps = 0
        self._options = tuple(options)
        vars(self).update(self._checked(options))
        for name in self.moments:
            setattr(self, name, [0.0] * len(self.parameters))

    def __setattr__(self, name: str, value: Any) -> None:
        # A rate that is a NumPy scalar would turn all parameters into NumPy scalars.
        super().__setattr__(name, _plain(value))

    def __repr__(self) -> str:
        options = "".join(f", {name}={getattr(self, name)!r}" for name in self._options)
        return f"{type(self).__name__}({len(self.parameters)} parameters{options})"

    def rule(self) -> Update:
        """What the next step does to one parameter, as a function.

        It may branch on options, but neither on the learning rate nor on the number of steps, which come to be known
        only when compiled code runs; and its mathematics is Python's operators and the functions of `scalar`.
        """
        raise NotImplementedError(f"{type(self).__name__} is an Optimizer without a rule() of its own")

    def step(self) -> None:
        """Change each parameter by its gradient, as the rule says."""
        data, grads = [p.data for p in self.parameters], [p.grad for p in self.parameters]
        changed = map(self.rule(), data, grads, *[getattr(self, name) for name in self.moments])
        data, *moments = map(list, zip(*changed, strict=True))
        state = dict(zip(self.moments, moments, strict=True), steps=self.steps + 1)
        assignments = map(setattr, self.parameters, repeat("data"), data), map(vars(self).update, [state])
        deque(chain(*assignments), maxlen=0)  # in C, where no Ctrl-C comes between

    def zero_grad(self) -> None:
        """Set the gradient of each parameter to 0, since `backward` adds to it."""
        for parameter in self.parameters:
            parameter.grad = 0.0

    @staticmethod
    def clip_scale(norm: Any, max_norm: float) -> Any:
        """What gradients of this norm are multiplied by; NaN for NaN, which so goes to all of them, as in PyTorch."""
        scale = max_norm / (norm + 1e-6)
        return scalar.where((scale < 1) | (norm != norm), scale, 1)

    def state_dict(self) -> dict[str, Any]:
        """All that a step depends on besides the parameters, as a dict that JSON can hold."""
        options = {name: getattr(self, name) for name in self._options}
        return {
            "optimizer": type(self).__name__,
            "steps": self.steps,
            **{name: list(value) if isinstance(value, (tuple, list)) else value for name, value in options.items()},
            **{name: list(map(plain, getattr(self, name))) for name in self.moments},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the state, and the options, of an optimizer of this kind with as many parameters.

        Raises
        ------
        ValueError
            If it is anything else. Then nothing has changed.
        """
        kind, expected = type(self).__name__, self.state_dict().keys()
        if not isinstance(state, dict) or state.keys() != expected or state["optimizer"] != kind:
            raise ValueError(f"not the state of an optimizer of kind {kind}, a dict of {', '.join(expected)}")
        options = self._checked({name: state[name] for name in self._options})
        steps = count("steps", state["steps"], least=0)
        moments = {}
        for name, least in self.moments.items():
            numbers, n = state[name], len(self.parameters)
            if not isinstance(numbers, list) or len(numbers) != n:
                raise ValueError(f"{name} is {numbers!r:.80}: expected a list of {n} numbers, one a parameter")
            moments[name] = [number(f"{name}[{i}]", x, least) for i, x in enumerate(numbers)]
        vars(self).update(options, steps=steps, **moments)

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options as Python numbers. Raises ValueError if one of them cannot be."""
        return {
            **{name: _plain(value) for name, value in options.items()},
            **{name: number(name, options[name]) for name in ("learning_rate", "weight_decay") if name in options},
        }


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked for (Sutskever et al., 2013).

    Parameters
    ----------
    parameters
        The Values to change.
    learning_rate
        How far to go along the gradient.
    momentum
        How much of the last step's direction to keep.
    dampening
        How much of the gradient to leave out of the direction, after the first step.
    weight_decay
        How much of the parameter to add to its gradient.
    nesterov
        Whether to look a step ahead along the direction. Takes a momentum and no dampening.

    Raises
    ------
    ValueError
        If there are no parameters, or an option is out of its range.
    TypeError
        If something else than a parameter is among them.
    """

    moments: ClassVar[dict[str, float]] = {"velocity": -math.inf}

    momentum: float
    dampening: float
    nesterov: bool
    velocity: list[float]

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(
            parameters,
            learning_rate=learning_rate,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )

    def rule(self) -> Update:
        """The learning rate times the gradient, or times the direction made from it."""
        rate, momentum, decay, nesterov = self.learning_rate, self.momentum, self.weight_decay, self.nesterov
        share = scalar.where(self.steps == 0, 1, 1 - self.dampening)

        def update(x: Any, grad: Any, velocity: Any) -> tuple[Any, Any]:
            if decay:
                grad = grad + decay * x
            if momentum:
                velocity = momentum * velocity + share * grad
                grad = grad + momentum * velocity if nesterov else velocity
            return x - rate * grad, velocity

        return update

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        momentum, dampening = (number(name, options[name]) for name in ("momentum", "dampening"))
        nesterov = plain(options["nesterov"])
        if not isinstance(nesterov, bool):
            raise ValueError(f"nesterov is {nesterov!r}: expected True or False")
        if nesterov and (not momentum or dampening):
            raise ValueError("nesterov takes a momentum above 0 and a dampening of 0")
        return {**super()._checked(options), "momentum": momentum, "dampening": dampening, "nesterov": nesterov}


class Adam(Optimizer):
    """Adam: steps of about the learning rate each, by running means of gradients and squares (Kingma and Ba, 2015).

    Parameters
    ----------
    parameters
        The Values to change.
    learning_rate
        How far to go at most, roughly, in each parameter.
    betas
        How much of the running means of the gradient and of its square to keep in a step.
    eps
        What to add to the root of the mean square before dividing by it.
    weight_decay
        How much of the parameter to add to its gradient.

    Raises
    ------
    ValueError
        If there are no parameters, or an option is out of its range.
    TypeError
        If something else than a parameter is among them.
    """

    moments: ClassVar[dict[str, float]] = {"mean": -math.inf, "mean_square": 0.0}

    betas: tuple[float, float]
    eps: float
    mean: list[float]
    mean_square: list[float]

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, learning_rate=learning_rate, betas=betas, eps=eps, weight_decay=weight_decay)

    def rule(self) -> Update:
        """The learning rate times the mean gradient in units of the root mean square."""
        (beta1, beta2), eps, steps = self.betas, self.eps, self.steps + 1
        new1, new2 = 1 - beta1, 1 - beta2
        rate = self.learning_rate / (1 - beta1**steps)  # both means started at 0, and are too small by these factors
        scale = scalar.sqrt(1 - beta2**steps)
        keep, decay = self._decay()

        def update(x: Any, grad: Any, mean: Any, mean_square: Any) -> tuple[Any, Any, Any]:
            if decay:
                grad = grad + decay * x
            mean = beta1 * mean + new1 * grad
            mean_square = beta2 * mean_square + new2 * (grad * grad)
            return x * keep - rate * mean / (scalar.sqrt(mean_square) / scale + eps), mean, mean_square

        return update

    def _decay(self) -> tuple[Any, Any]:
        """How much of a parameter a step keeps, and how much of it is added to its gradient."""
        return 1, self.weight_decay

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        betas, eps = options["betas"], number("eps", options["eps"])
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise ValueError(f"betas is {betas!r}: expected two numbers, such as (0.9, 0.999)")
        if not eps:
            raise ValueError("eps is 0: expected a number above 0, for without it a gradient of 0 divides 0 by 0")
        betas = tuple([number(f"betas[{i}]", beta, below=1) for i, beta in enumerate(betas)])
        return {**super()._checked(options), "betas": betas, "eps": eps}


class AdamW(Adam):
    """Adam with the decay of the weights apart from the gradients' means (Loshchilov and Hutter, 2019).

    The parameters and errors are those of `Adam`, but for `weight_decay`: the share of itself that each parameter
    loses in a step, times the learning rate.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, learning_rate, betas, eps, weight_decay)

    def _decay(self) -> tuple[Any, Any]:
        return 1 - self.learning_rate * self.weight_decay, 0


def clip_grad_norm(
    parameters: Iterable[Parameter], max_norm: float, scale: Callable[[float, float], float] = Optimizer.clip_scale
) -> float:
    """Scale the gradients down so that their norm, the root of the sum of their squares, is `max_norm` at most.

    As in PyTorch the scale is max_norm / (norm + 1e-6) where that is below 1, unless `scale`, a function of the norm
    and its limit, says otherwise. A `max_norm` of infinity only measures.

    Returns
    -------
    float
        The norm that the gradients had.

    Raises
    ------
    ValueError
        If `max_norm` is negative or NaN, or there are no parameters.
    TypeError
        If something else than a parameter is among them.
    """
    parameters, max_norm = _unique(parameters), plain(max_norm)
    if not isinstance(max_norm, (int, float)) or not max_norm >= 0:
        raise ValueError(f"max_norm is {max_norm!r}: expected a number of at least 0")
    norm = math.hypot(*[p.grad for p in parameters])
    factor = scale(norm, max_norm)
    for p in parameters:
        p.grad *= factor
    return norm


# Schedules

Schedule = Callable[[int], float]
"""From the number of steps taken to the learning rate of the next."""

P = ParamSpec("P")


class _Schedule:
    """What one of the functions below makes; it is copied and pickled as the call that has made it."""

    def __init__(self, call: partial[Schedule], rate: Schedule) -> None:
        self._call, self._rate = call, rate

    def __call__(self, step: int) -> float:
        return self._rate(step)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call, ()

    def __repr__(self) -> str:
        options = [f"{name}={option!r}" for name, option in self._call.keywords.items()]
        return f"{self._call.func.__name__}({', '.join([*map(repr, self._call.args), *options])})"

    def schedules(self) -> list[Schedule]:
        """Those that it was made from."""
        return list(filter(callable, (*self._call.args, *self._call.keywords.values())))


def foreseeable(schedule: Schedule) -> bool:
    """Whether the rates depend on the number of steps alone: those of a function of the user's may on anything."""
    return isinstance(schedule, _Schedule) and all(map(foreseeable, schedule.schedules()))


def _travels(make: Callable[P, Schedule]) -> Callable[P, Schedule]:
    """Let the schedules that a function makes be pickled, which a lambda cannot be."""

    @wraps(make)
    def schedule(*args: P.args, **options: P.kwargs) -> Schedule:
        return _Schedule(partial(schedule, *args, **options), make(*args, **options))

    return schedule


@_travels
def constant(learning_rate: float) -> Schedule:
    """The same rate at every step. Like all schedules, raises ValueError for an argument out of its range."""
    rate = number("learning_rate", learning_rate)
    return lambda step: rate


@_travels
def step(learning_rate: float, every: int, factor: float = 0.1) -> Schedule:
    """The rate times `factor` after every so many steps."""
    rate, every, factor = number("learning_rate", learning_rate), count("every", every), number("factor", factor)
    return lambda step: rate * factor ** (step // every)


@_travels
def exponential(learning_rate: float, factor: float) -> Schedule:
    """The rate times `factor` after each step."""
    rate, factor = number("learning_rate", learning_rate), number("factor", factor)
    return lambda step: rate * factor**step


@_travels
def linear(learning_rate: float, steps: int, final: float = 0.0) -> Schedule:
    """From the rate to the `final` one in a straight line of so many steps, and on at that."""
    rate, steps, final = number("learning_rate", learning_rate), count("steps", steps), number("final", final)
    return lambda step: rate + (final - rate) * (min(step, steps) / steps)


@_travels
def cosine(learning_rate: float, steps: int, final: float = 0.0) -> Schedule:
    """From the rate to the `final` one along half a cosine of so many steps, and on at that.

    See Loshchilov and Hutter (2017), without the restarts.
    """
    rate, steps, final = number("learning_rate", learning_rate), count("steps", steps), number("final", final)
    return lambda step: final + (rate - final) * (1 + math.cos(math.pi * min(step, steps) / steps)) / 2


@_travels
def warmup(schedule: Schedule, steps: int) -> Schedule:
    """From near 0 up to the first rate of `schedule` in a straight line of so many steps, then all of the schedule."""
    steps = count("steps", steps)
    return lambda step: schedule(0) * (step + 1) / (steps + 1) if step < steps else schedule(step - steps)


def _plain(option: Any) -> Any:
    return tuple(map(plain, option)) if isinstance(option, tuple) else plain(option)


def _unique(parameters: Iterable[Parameter]) -> list[Parameter]:
    """Each parameter once, in order."""
    unique = list({id(parameter): parameter for parameter in listed("parameters", parameters)}.values())
    if not unique:
        raise ValueError("parameters is empty: expected the Values to change, such as model.parameters()")
    for parameter in unique:
        if not hasattr(parameter, "grad"):
            raise TypeError(f"parameters holds a {type(parameter).__name__}: expected Values, as of model.parameters()")
        if getattr(parameter, "_prev", ()):
            raise ValueError(f"parameters holds {parameter!r:.80}, which is computed from others: expected leaves")
    return unique
