"""An optimal control: a damped pendulum swings up with little torque and time. Its sparse derivatives, its solution.

Each step is one of Runge and Kutta's method; all states and torques are unknowns, and that they fit are constraints.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tests.benchmarks.arrays import jax_numpy
from tests.benchmarks.harness import Measure, timed, weighed

STEPS = 200
UNKNOWNS = 3 * STEPS + 3  # angle, speed and torque at each step, angle and speed at the end, and the time


def effort(x: Any) -> Any:
    """The square of the torque, over time, and the time."""
    return x[-1] / STEPS * sum(torque * torque for torque in x[2:-1:3]) + x[-1]


def missed(before: Sequence[Any], after: Sequence[Any], h: Any, sin: Callable[[Any], Any]) -> tuple[Any, Any]:
    """How far a step of Runge and Kutta's method misses the next angle and speed of a damped pendulum.

    Before are angle, speed and torque, each a number, or an array of many steps.
    """
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


def gaps_of_arrays(x: Any, numbers: Any) -> Any:
    """The same by NumPy or JAX, all steps at once."""
    angles, speeds, torques = x[0:-1:3], x[1:-1:3], x[2:-1:3]
    pairs = missed((angles[:-1], speeds[:-1], torques), (angles[1:], speeds[1:]), x[-1] / STEPS, numbers.sin)
    return numbers.stack(pairs, axis=1).ravel()


def control_example(what: str = "hessian") -> list[Any]:
    """The unknowns, and for the hessian the multipliers."""
    import numpy as np

    x = np.append(0.1 * np.sin(np.arange(UNKNOWNS - 1)), 2.0)
    return [x] if what == "jacobian" else [x, 0.3 * np.cos(np.arange(2 * STEPS))]


def our_derivative(what: str, weight: bool = False) -> Any:
    """The jacobian of the constraints or the hessian of the Lagrangian, compiled; the effort may have a weight."""
    import micrograd
    from micrograd import dot, hessian, jacobian, scalar

    def motion(x: Any) -> list[Any]:
        return gaps(x, scalar.sin)

    def lagrangian(x: Any, multipliers: Any, *weights: Any) -> Any:
        return (weights[0] if weights else 1) * effort(x) + dot(multipliers, motion(x))

    function = jacobian(motion) if what == "jacobian" else hessian(lagrangian)
    arguments = [*control_example(what), 1.0] if weight else control_example(what)
    return micrograd.compile(function, arguments, sparse=True, backend="c")


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


def casadi_problem() -> tuple[Any, Any, Any]:
    """The unknowns, the effort and the constraints."""
    import casadi

    x = casadi.SX.sym("x", UNKNOWNS)
    xs = casadi.vertsplit(x)
    return x, effort(xs), casadi.vertcat(*gaps(xs, casadi.sin))


def casadi_control(what: str, buffers: bool = False) -> Measure:
    """By a call, or by `FunctionBuffer`."""
    import casadi
    import numpy as np
    from scipy.sparse import csc_array

    arguments, (x, y, constraints) = control_example(what), casadi_problem()
    if what == "jacobian":
        fast = casadi.Function("jacobian", [x], [casadi.jacobian(constraints, x)])
    else:
        multipliers = casadi.SX.sym("multipliers", 2 * STEPS)
        lagrangian = y + casadi.dot(multipliers, constraints)
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


def jax_control(what: str) -> Measure:
    """As JAX has no sparse derivatives."""
    jnp = jax_numpy()
    import jax
    import numpy as np

    def lagrangian(x: Any, multipliers: Any) -> Any:
        return x[-1] / STEPS * jnp.sum(x[2:-1:3] ** 2) + x[-1] + multipliers @ gaps_of_arrays(x, jnp)

    of_gaps = jax.jacrev(lambda x: gaps_of_arrays(x, jnp))
    fast, arguments = jax.jit(of_gaps if what == "jacobian" else jax.hessian(lagrangian)), control_example(what)
    return weighed(lambda: [np.asarray(fast(*arguments))])


def scipy_control() -> Measure:
    """By differences, of many variables at once."""
    import numpy as np
    from scipy.optimize._numdiff import approx_derivative, group_columns

    (x,), rows = control_example("jacobian"), np.arange(2 * STEPS)
    pattern = np.zeros((2 * STEPS, UNKNOWNS))
    for k in range(3):
        pattern[rows, 3 * (rows // 2) + k] = 1
    pattern[rows, 3 * (rows // 2) + 3 + rows % 2] = pattern[:, -1] = 1
    sparsity = pattern, group_columns(pattern)
    return weighed(lambda: [approx_derivative(lambda x: gaps_of_arrays(x, np), x, method="2-point", sparsity=sparsity)])


def bounds() -> tuple[Any, Any, Any]:
    """Where the unknowns begin, and their bounds: from hanging to standing upright, in half a second to ten."""
    import numpy as np

    start, low, high = np.zeros(UNKNOWNS), np.full(UNKNOWNS, -30.0), np.full(UNKNOWNS, 30.0)
    start[-1], low[-1], high[-1] = 2.0, 0.5, 10.0
    for i, value in ((0, 0.0), (1, 0.0), (3 * STEPS, np.pi), (3 * STEPS + 1, 0.0)):
        low[i] = high[i] = value
    return start, low, high


def ipopt(cost: Any, gradient: Any, constraints: Any, jacobian: Any, hessian: Any, patterns: Any) -> Measure:
    """The solution by Ipopt, of functions and of the rows and columns of the jacobian's and the hessian's numbers."""
    import cyipopt
    import numpy as np

    start, low, high = bounds()
    slopes, (rows, columns) = patterns[0], map(np.array, patterns[1])
    half = rows >= columns  # of the hessian

    class Problem:
        def objective(self, x: Any) -> Any:
            return cost(x)

        def gradient(self, x: Any) -> Any:
            return gradient(x)

        def constraints(self, x: Any) -> Any:
            return constraints(x)

        def jacobian(self, x: Any) -> Any:
            return jacobian(x)

        def jacobianstructure(self) -> Any:
            return slopes

        def hessian(self, x: Any, multipliers: Any, weight: float) -> Any:
            return hessian(x, multipliers, weight)[half]

        def hessianstructure(self) -> Any:
            return rows[half], columns[half]

    zero = np.zeros(2 * STEPS)
    problem = cyipopt.Problem(UNKNOWNS, len(zero), Problem(), lb=low, ub=high, cl=zero, cu=zero)
    for option, value in (("print_level", 0), ("sb", "yes")):
        problem.add_option(option, value)
    return timed(lambda: float(problem.solve(start)[1]["obj_val"]))


def our_solution() -> Measure:
    """With compiled functions."""
    import micrograd
    from micrograd import scalar

    start, _, _ = bounds()
    cost = micrograd.compile(effort, (start,), backend="c")
    constraints = micrograd.compile(lambda x: gaps(x, scalar.sin), (start,), backend="c")
    slopes, curvature = our_derivative("jacobian"), our_derivative("hessian", weight=True)
    return ipopt(
        cost,
        lambda x: cost.value_and_grad(x)[1],
        constraints,
        lambda x: slopes(x).data,
        lambda *arguments: curvature(*arguments).data,
        (slopes.pattern, curvature.pattern),
    )


def casadi_callbacks() -> Measure:
    """With CasADi's functions, called from Python by the same Ipopt as ours."""
    import casadi
    import numpy as np

    x, y, constraints = casadi_problem()
    multipliers, weight = casadi.SX.sym("multipliers", 2 * STEPS), casadi.SX.sym("weight")
    lagrangian = weight * y + casadi.dot(multipliers, constraints)
    results = y, casadi.gradient(y, x), constraints, casadi.jacobian(constraints, x)
    functions = [casadi.Function("function", [x], [casadi.densify(result)]) for result in results[:3]]
    functions.append(casadi.Function("jacobian", [x], [results[3]]))
    functions.append(casadi.Function("hessian", [x, multipliers, weight], [casadi.hessian(lagrangian, x)[0]]))
    cost, *others = [lambda *arguments, f=function: np.array(f(*arguments).nonzeros()) for function in functions]
    patterns = [function.sparsity_out(0).get_triplet() for function in functions[3:]]
    return ipopt(lambda x: cost(x)[0], *others, patterns)


def casadi_solution() -> Measure:
    """By the Ipopt that CasADi brings, which calls its functions without Python."""
    import casadi

    (start, low, high), (x, y, constraints) = bounds(), casadi_problem()
    quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes"}
    solve = casadi.nlpsol("solve", "ipopt", {"x": x, "f": y, "g": constraints}, quiet)
    return timed(lambda: float(solve(x0=start, lbx=low, ubx=high, lbg=0, ubg=0)["f"]))
