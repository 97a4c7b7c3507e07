"""The sparse derivatives of an optimal control: a damped pendulum swings up with little torque and time.

Each step is one of Runge and Kutta's method; all states and torques are unknowns, and that they fit are constraints.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tests.benchmarks.harness import Measure, weighed

STEPS = 200
UNKNOWNS = 3 * STEPS + 3  # angle, speed and torque at each step, angle and speed at the end, and the time


def effort(x: Any) -> Any:
    """The square of the torque, over time, and the time."""
    return x[-1] / STEPS * sum(torque * torque for torque in x[2:-1:3]) + x[-1]


def missed(before: Sequence[Any], after: Sequence[Any], h: Any, sin: Callable[[Any], Any]) -> tuple[Any, Any]:
    """How far a step of Runge and Kutta's method, from angle, speed and torque, misses the next angle and speed."""
    angle, speed, torque = before

    def change(angle: Any, speed: Any) -> tuple[Any, Any]:
        return speed, torque - 0.1 * speed - 9.81 * sin(angle)

    a, b = change(angle, speed)
    c, d = change(angle + h / 2 * a, speed + h / 2 * b)
    e, f = change(angle + h / 2 * c, speed + h / 2 * d)
    i, j = change(angle + h * e, speed + h * f)
    return after[0] - angle - h / 6 * (a + 2 * c + 2 * e + i), after[1] - speed - h / 6 * (b + 2 * d + 2 * f + j)


def gaps(x: Any, sin: Callable[[Any], Any]) -> list[Any]:
    """The constraints, step by step."""
    h = x[-1] / STEPS
    return [gap for k in range(0, 3 * STEPS, 3) for gap in missed(x[k : k + 3], x[k + 3 : k + 5], h, sin)]


def control_example(what: str = "hessian") -> list[Any]:
    """The unknowns, and for the hessian the multipliers."""
    import numpy as np

    x = np.append(0.1 * np.sin(np.arange(UNKNOWNS - 1)), 2.0)
    return [x] if what == "jacobian" else [x, 0.3 * np.cos(np.arange(2 * STEPS))]


def our_derivative(what: str) -> Any:
    """The jacobian of the constraints or the hessian of the Lagrangian, compiled."""
    import micrograd
    from micrograd import dot, hessian, jacobian, scalar

    def motion(x: Any) -> list[Any]:
        return gaps(x, scalar.sin)

    def lagrangian(x: Any, multipliers: Any) -> Any:
        return effort(x) + dot(multipliers, motion(x))

    function = jacobian(motion) if what == "jacobian" else hessian(lagrangian)
    return micrograd.compile(function, control_example(what), sparse=True, backend="c")


def our_control(what: str, buffers: bool = False) -> Measure:
    """By a call, or by `map` of what is packed."""
    import numpy as np
    from scipy.sparse import coo_array

    arguments, fast = control_example(what), our_derivative(what)
    if not buffers:
        return weighed(lambda: [fast(*arguments)])
    packed, out = fast.pack(*[argument[None] for argument in arguments]), np.empty((1, len(fast.pattern[0])))
    shape = 2 * STEPS if what == "jacobian" else UNKNOWNS, UNKNOWNS
    return weighed(lambda: fast.map(packed, out=out), lambda: [coo_array((out[0], fast.pattern), shape)])


def casadi_control(what: str, buffers: bool = False) -> Measure:
    """By a call, or by `FunctionBuffer`."""
    import casadi
    import numpy as np
    from scipy.sparse import csc_array

    arguments, x = control_example(what), casadi.SX.sym("x", UNKNOWNS)
    xs = casadi.vertsplit(x)
    constraints = casadi.vertcat(*gaps(xs, casadi.sin))
    if what == "jacobian":
        fast = casadi.Function("jacobian", [x], [casadi.jacobian(constraints, x)])
    else:
        multipliers = casadi.SX.sym("multipliers", 2 * STEPS)
        lagrangian = effort(xs) + casadi.dot(multipliers, constraints)
        fast = casadi.Function("hessian", [x, multipliers], [casadi.hessian(lagrangian, x)[0]])
    if not buffers:
        return weighed(lambda: [fast(*arguments).sparse()])
    buffer, evaluate = fast.buffer()
    pattern, out = fast.sparsity_out(0), np.zeros(fast.nnz_out(0))
    for i, argument in enumerate(arguments):
        buffer.set_arg(i, memoryview(argument))
    buffer.set_res(0, memoryview(out))
    kept = buffer, arguments  # as they are only pointed to

    def matrices() -> list[Any]:
        assert kept
        return [csc_array((out, pattern.row(), pattern.colind()), pattern.shape)]

    return weighed(evaluate, matrices)
