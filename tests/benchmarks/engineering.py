"""Problems of engineers: a curve's jacobian, an optimal control, and an arm on a microcontroller.

Arguments and results are NumPy arrays, sparse matrices are SciPy's. "into buffers" has neither: numbers are read and
written where they lie. The code for the Cortex-M4 is compiled by ziglang. What is not installed is left out.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from tests.benchmarks.arrays import jax_numpy
from tests.benchmarks.control import STEPS, UNKNOWNS, casadi_control, our_control
from tests.benchmarks.harness import Benchmark, Contestant, Measure, weighed
from tests.benchmarks.microcontroller import casadi_code, our_code

POINTS = 5_000
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
            {"CasADi SX": [casadi_control, what], "CasADi SX, into buffers": [casadi_control, what, True]},
        )
        for what, title in (("jacobian", "jacobian"), ("hessian", "hessian of the Lagrangian"))
    ]
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
        *derivatives,
        *([size] if find_spec("ziglang") else []),
    ]


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
