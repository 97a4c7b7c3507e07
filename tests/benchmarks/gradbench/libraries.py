"""PyTorch and JAX behind the same few names, so that one program in arrays serves both.

Both compute in doubles, on one processor. JAX compiles whole functions, loops included; PyTorch runs operation by
operation, with loops in Python.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

Function = Callable[..., Any]


class PyTorch:
    def __init__(self) -> None:
        import torch

        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        self.np: Any = torch
        self.array, self.logsumexp, self.lowest = torch.as_tensor, torch.logsumexp, torch.amin
        self.vmap, self.jacobian, self.jvp = torch.func.vmap, torch.func.jacfwd, torch.func.jvp
        self.slope = torch.func.grad

    def compiled(self, f: Function) -> Function:
        """The function as it is."""
        return f

    def grad(self, f: Function, n: int = 1) -> Function:
        """The gradients of a function with respect to its first n arguments."""

        def gradients(*args: Any) -> Any:
            leaves = [x.detach().requires_grad_() for x in args[:n]]
            return self.np.autograd.grad(f(*leaves, *args[n:]), leaves)

        return gradients

    def hvp(self, f: Function, x: Any, *args: Any) -> tuple[Any, Any]:
        """The gradient with respect to x, and the hessian times ones, in two backward passes."""
        x = x.detach().requires_grad_()
        [gradient] = self.np.autograd.grad(f(x, *args), x, create_graph=True)
        return gradient.detach(), self.np.autograd.grad(gradient.sum(), x)[0]

    def filled(self, diagonal: Any, below: Any, rows: Any, columns: Any) -> Any:
        matrices = self.np.diag_embed(diagonal)
        matrices[:, rows, columns] = below
        return matrices

    def scan(self, step: Function, state: Any, xs: Any) -> Any:
        """The state after a step for each x."""
        return reduce(step, xs, state)

    def loop(self, goes_on: Function, step: Function, state: Any) -> Any:
        """The state after steps are taken for as long as it `goes_on`."""
        while goes_on(state):
            state = step(state)
        return state


class JAX:
    def __init__(self) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")
        self.jax, self.np = jax, jax.numpy
        self.array, self.logsumexp, self.lowest = jax.numpy.asarray, jax.nn.logsumexp, jax.numpy.min
        self.vmap, self.jacobian, self.jvp = jax.vmap, jax.jacfwd, jax.jvp
        self.slope = jax.grad
        self.loop = jax.lax.while_loop

    def compiled(self, f: Function) -> Function:
        """The compiled function; it returns when its result is ready."""
        fast = self.jax.jit(f)
        return lambda *args: self.jax.block_until_ready(fast(*args))

    def grad(self, f: Function, n: int = 1) -> Function:
        """The gradients of a function with respect to its first n arguments."""
        return self.jax.grad(f, tuple(range(n)))  # type: ignore[no-any-return]

    def hvp(self, f: Function, x: Any, *args: Any) -> tuple[Any, Any]:
        """The gradient with respect to x, and the hessian times ones, forward over backward."""
        slope = self.jax.grad(lambda x: f(x, *args))
        return self.jvp(slope, (x,), (self.np.ones_like(x),))  # type: ignore[no-any-return]

    def filled(self, diagonal: Any, below: Any, rows: Any, columns: Any) -> Any:
        matrices = self.vmap(self.np.diag)(diagonal)
        return matrices.at[:, rows, columns].set(below)

    def scan(self, step: Function, state: Any, xs: Any) -> Any:
        """The state after a step for each x."""
        return self.jax.lax.scan(lambda state, x: (step(state, x), None), state, xs)[0]


Library = PyTorch | JAX
