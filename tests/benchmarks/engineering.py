"""Problems of engineers: a curve's jacobian, a long gradient, an optimal control, and an arm on a microcontroller.

Arguments and results are NumPy arrays, sparse matrices are SciPy's. "into buffers" has neither: numbers are read and
written where they lie. JAX is installed by `pip install jax`. The code for the Cortex-M4 is compiled by ziglang. What
is not installed is left out. All contestants solve by the Ipopt that CasADi brings, since the linear solver takes about
half of the time in it that it takes in the wheels of cyipopt. So cyipopt is built on it:

    C=$(python -c "import casadi; print(casadi.__path__[0])")
    export PKG_CONFIG_PATH=$C/pkgconfig CFLAGS=-I$C/include/coin-or LDFLAGS="-L$C -Wl,-rpath,$C"
    pip install --no-binary cyipopt cyipopt
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from tests.benchmarks.arrays import jax_numpy
from tests.benchmarks.control import (
    STEPS,
    UNKNOWNS,
    casadi_callbacks,
    casadi_control,
    casadi_solution,
    jax_control,
    our_control,
    our_solution,
    scipy_control,
)
from tests.benchmarks.harness import Benchmark, Contestant, Measure, weighed
from tests.benchmarks.microcontroller import casadi_code, our_code

POINTS, VARIABLES = 5_000, 2_000
NEEDS = {"JAX": "jax", "CasADi": "casadi"}
"""What contestants import whose names begin so."""


def benchmarks() -> list[Benchmark]:
    """All that can be compared with what is installed."""

    def task(title: str, ours: dict[str, Any], others: dict[str, Any], **settings: Any) -> Benchmark:
        made = [
            tuple(
                Contestant(name, function, tuple(arguments))
                for name, (function, *arguments) in contestants.items()
                if all(find_spec(module) for library, module in NEEDS.items() if name.startswith(library))
            )
            for contestants in (ours, others)
        ]
        return Benchmark(title, *made, **settings)

    derivatives = [
        task(
            f"{title} of an optimal control, {UNKNOWNS} variables, {2 * STEPS} constraints",
            {"compiled to C": [our_control, what], "compiled to C, into buffers": [our_control, what, True]},
            {"CasADi SX": [casadi_control, what], "CasADi SX, into buffers": [casadi_control, what, True]}
            | {"JAX, dense": [jax_control, what]}
            | ({"SciPy, differences": [scipy_control]} if what == "jacobian" else {}),
            tolerance=1e-5,  # of differences
        )
        for what, title in (("jacobian", "jacobian"), ("hessian", "hessian of the Lagrangian"))
    ]
    solution = task(
        f"solution of that optimal control by Ipopt, {STEPS} steps",
        {"compiled to C": [our_solution]},
        {"CasADi SX": [casadi_callbacks], "CasADi SX, Ipopt without Python": [casadi_solution]},
    )
    size = task(
        "code of a step of an arm with four joints, floats on a Cortex-M4",
        {"exported C, finite=True": [our_code, True], "exported C": [our_code, False]},
        {"CasADi SX, elimination as ours": [casadi_code, True], "CasADi SX, its solve": [casadi_code, False]},
        unit="bytes",
        rounds=1,
    )
    return [
        task(
            f"jacobian of a curve with 12 parameters at {POINTS:,} points",
            {"compiled to C": [our_curve], "compiled to C, into buffers": [our_curve, True]},
            {"NumPy by hand": [numpy_curve], "JAX": [jax_curve], "CasADi SX": [casadi_curve]},
        ),
        task(
            f"Rosenbrock's function of {VARIABLES:,} variables, value and gradient",
            {"compiled to C": [our_rosenbrock]},
            {"NumPy by hand": [numpy_rosenbrock], "JAX": [jax_rosenbrock], "CasADi SX": [casadi_rosenbrock]},
        ),
        *derivatives,
        *([solution] if find_spec("cyipopt") else []),
        *([size] if find_spec("ziglang") else []),
    ]


# A curve's jacobian


def bumps(p: Any, x: Any, exp: Callable[[Any], Any]) -> Any:
    """Four bumps, each of a height, a place and a steepness."""
    return sum(p[3 * k] * exp(-(((x - p[3 * k + 1]) * p[3 * k + 2]) ** 2)) for k in range(4))


def curve_example() -> tuple[Any, Any]:
    """Parameters and points."""
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.normal(size=12), rng.normal(size=POINTS)


def our_curve(buffers: bool = False) -> Measure:
    """By `map`, with the parameters shared, into a new array or into the same one each time."""
    import numpy as np

    import micrograd
    from micrograd import grad, scalar

    p, xs = curve_example()
    fast = micrograd.compile(grad(partial(bumps, exp=scalar.exp)), (p, 0.0), in_axes=(None, 0), backend="c")
    out = np.empty((POINTS, 12)) if buffers else None
    return weighed(lambda: [fast.map(p, xs, out=out)])


def numpy_curve() -> Measure:
    """The formulas."""
    import numpy as np

    p, xs = curve_example()
    heights, places, steepness = p.reshape(4, 3).T

    def jacobian() -> list[Any]:
        distances = xs[:, None] - places
        scaled = distances * steepness
        powers = np.exp(-scaled * scaled)
        slopes = 2 * heights * scaled * powers
        return [np.stack([powers, slopes * steepness, -slopes * distances], axis=2).reshape(POINTS, 12)]

    return weighed(jacobian)


def jax_curve() -> Measure:
    """By `vmap`."""
    jnp = jax_numpy()
    import jax
    import numpy as np

    p, xs = curve_example()
    fast = jax.jit(jax.vmap(jax.grad(partial(bumps, exp=jnp.exp)), in_axes=(None, 0)))
    return weighed(lambda: [np.asarray(fast(p, xs))])


def casadi_curve() -> Measure:
    """By its `map`, of which the parameters are one for all."""
    import casadi

    p, xs = curve_example()
    symbols, x = casadi.SX.sym("p", 12), casadi.SX.sym("x")
    y = bumps(casadi.vertsplit(symbols), x, casadi.exp)
    function = casadi.Function("slopes", [symbols, x], [casadi.gradient(y, symbols)])
    fast = function.map("all", "serial", POINTS, [0], [])
    row = xs[None]
    return weighed(lambda: [fast(p, row).full().T])


# A long gradient


def rosenbrock(x: Any, total: Callable[[Any], Any] = sum) -> Any:
    """As the textbooks have it."""
    return total([100 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in pairwise(x)])


def long_example() -> Any:
    """A point."""
    import numpy as np

    return np.random.default_rng(0).normal(size=VARIABLES)


def our_rosenbrock() -> Measure:
    """By `value_and_grad`."""
    import micrograd

    x = long_example()
    fast = micrograd.compile(partial(rosenbrock, total=micrograd.sum), (x,), backend="c")
    return weighed(lambda: fast.value_and_grad(x))


def numpy_rosenbrock() -> Measure:
    """As SciPy has it."""
    from scipy.optimize import rosen, rosen_der

    x = long_example()
    return weighed(lambda: (rosen(x), rosen_der(x)))


def jax_rosenbrock() -> Measure:
    """On whole arrays."""
    jnp = jax_numpy()
    import jax
    import numpy as np

    x = long_example()
    fast = jax.jit(jax.value_and_grad(lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)))
    return weighed(lambda: list(map(np.asarray, fast(x))))


def casadi_rosenbrock() -> Measure:
    """By its reverse mode."""
    import casadi

    x, symbols = long_example(), casadi.SX.sym("x", VARIABLES)
    y = rosenbrock(casadi.vertsplit(symbols))
    fast = casadi.Function("rosenbrock", [symbols], [y, casadi.gradient(y, symbols)])
    return weighed(lambda: [part.full() for part in fast(x)])
