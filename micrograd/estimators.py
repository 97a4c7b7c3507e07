"""scikit-learn's `MLPClassifier` and `MLPRegressor` on compiled code, for its pipelines, searches and cross-validation.

They are scikit-learn's own estimators but for what they compute with: arguments, methods, attributes and errors are
theirs, and so are the formulas and the random numbers: for the same `random_state`, they learn the same weights but for
rounding. They compute in doubles. This file alone needs scikit-learn: `pip install scikit-learn`.
"""

import math
import pickle
import warnings
import weakref
from array import array
from collections.abc import Callable
from contextlib import ExitStack
from copy import copy
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

try:
    import numpy as np
    from scipy.special import xlogy
    from sklearn import neural_network
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise ImportError("micrograd.estimators needs scikit-learn, 1.7 or newer: pip install scikit-learn") from error

from micrograd import losses, nn, optim, scalar
from micrograd.compiler import compile

__all__ = ["MLPClassifier", "MLPRegressor"]

ACTIVATIONS = {"identity": "linear", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}
OUTPUTS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "softmax": (losses.cross_entropy, losses.softmax),
    "logistic": (partial(losses.binary_cross_entropy_with_logits, reduction="sum"), lambda z: [x.sigmoid() for x in z]),
    "identity": (lambda z, y: losses.mse_loss(z, y, reduction="sum") / 2, list),
    "exp": (lambda z, y: sum(a.exp() - b * a for a, b in zip(z, y, strict=True)), lambda z: [x.exp() for x in z]),
}
"""For each `out_activation_`, the loss of an example's last layer, and the outputs that are computed from that."""


class _Adam(optim.Optimizer):
    """Adam by scikit-learn's formula, in which the bias correction does not scale epsilon.

    The share of the penalty in a step depends on the size of the batch. Compiled code takes one number for each step,
    the `learning_rate`, so here that is the share. Rates and penalties are kept for each parameter, like moments. So is
    `added`, twice what the penalties have added to the losses: the weights of a step are only known while it is taken.
    """

    moments: ClassVar = {"mean": -math.inf, "mean_square": 0.0, "penalty": 0.0, "rate": 0.0, "added": 0.0}

    beta_1: float
    beta_2: float
    epsilon: float

    def rule(self) -> optim.Update:
        share, beta1, beta2, eps, steps = self.learning_rate, self.beta_1, self.beta_2, self.epsilon, self.steps + 1
        scale = scalar.sqrt(1 - beta2**steps) / (1 - beta1**steps)

        def update(x: Any, grad: Any, mean: Any, mean_square: Any, penalty: Any, rate: Any, added: Any) -> Any:
            pull = share * penalty * x
            grad, added = grad + pull, added + pull * x
            mean = beta1 * mean + (1 - beta1) * grad
            mean_square = beta2 * mean_square + (1 - beta2) * (grad * grad)
            return x - rate * scale * mean / (scalar.sqrt(mean_square) + eps), mean, mean_square, penalty, rate, added

        return update


class _SGD(optim.Optimizer):
    """SGD by scikit-learn's formula, whose velocity keeps the rates of earlier steps. The rest is as in `_Adam`."""

    moments: ClassVar[dict[str, float]] = {"velocity": -math.inf, "penalty": 0.0, "rate": 0.0, "added": 0.0}

    momentum: float
    nesterov: bool

    def rule(self) -> optim.Update:
        share, momentum, nesterov = self.learning_rate, self.momentum, self.nesterov

        def update(x: Any, grad: Any, velocity: Any, penalty: Any, rate: Any, added: Any) -> tuple[Any, ...]:
            pull = share * penalty * x
            change, added = rate * (grad + pull), added + pull * x
            velocity = momentum * velocity - change
            return x + (momentum * velocity - change if nesterov else velocity), velocity, penalty, rate, added

        return update


@lru_cache(maxsize=32)
def _pickled(kind: str, sizes: tuple[int, ...], activation: str, output: str) -> bytes:
    """The "loss" or the "outputs" of a network, compiled and pickled: so clones, as a search makes, need no tracing."""
    model = nn.MLP(sizes[0], sizes[1:], ACTIVATIONS[activation], rng=0)
    loss, outputs = OUTPUTS[output]

    def last(x: Any) -> list[Any]:
        z = model(x)
        return z if isinstance(z, list) else [z]

    xs, ys = [0.0] * sizes[0], 0.0 if output == "softmax" else [0.0] * sizes[-1]
    if kind == "outputs":
        return pickle.dumps(compile(lambda x: outputs(last(x)), (xs,), parameters=model.parameters()))
    weighted = compile(lambda x, y, weight: weight * loss(last(x), y), (xs, ys, 0.0), parameters=model.parameters())
    return pickle.dumps(weighted)


class _Network:
    """A network in compiled code, for weights in a vector. Its training block stays open from one fit to the next."""

    def __init__(self, *key: Any) -> None:
        self.key = key
        self.optimizer: Any = None  # takes the steps in place of scikit-learn's
        self._sklearn_optimizer: Any = None
        self.vector: Any = None  # the weights after its last epoch
        self._block = ExitStack()
        weakref.finalize(self, self._block.close)

    loss = cached_property(lambda self: pickle.loads(_pickled("loss", *self.key)))
    _outputs = cached_property(lambda self: pickle.loads(_pickled("outputs", *self.key)))

    def outputs(self, vector: Any, xs: Any) -> Any:
        """The outputs with these weights for each example: an array of shape (examples, outputs)."""
        function, parameters = self._outputs, memoryview(vector)
        packed = function._packed([xs])
        numbers, _ = function._run("forward", packed, parameters=parameters, as_arrays=True)
        return function._unflattened(packed.shapes, packed.n, numbers)

    def follow(self, sklearn_optimizer: Any) -> None:
        """Take over the rate of scikit-learn's optimizer; if it is a new one, also its options, and start afresh."""
        is_sgd = hasattr(sklearn_optimizer, "momentum")
        if sklearn_optimizer is not self._sklearn_optimizer:
            kind: type[optim.Optimizer] = _SGD if is_sgd else _Adam
            names = ("momentum", "nesterov") if is_sgd else ("beta_1", "beta_2", "epsilon")
            options = {name: getattr(sklearn_optimizer, name) for name in names}
            self.optimizer = kind(self.loss.parameters, learning_rate=0.0, **options)
            if state := vars(sklearn_optimizer).pop("state", None):  # of one that was copied or unpickled
                self.optimizer.load_state_dict(state)
            self._block.close()
            self._step = self._block.enter_context(self.loss.training(self.optimizer))
            self._sklearn_optimizer, self.vector = sklearn_optimizer, None
            self._rate, self._penalty = math.nan, math.nan
        rate = sklearn_optimizer.learning_rate if is_sgd else sklearn_optimizer.learning_rate_init
        if rate != self._rate:
            self._rate, self.optimizer.rate = rate, [rate] * len(self.loss.parameters)

    def set_examples(self, columns: list[Any], size: int) -> None:
        """Use these examples, in batches of this size, in the next epochs."""
        self.columns, self._size = columns, size
        self._examples = self.loss._examples(columns, size, lambda *_: None)

    def run_epoch(self, vector: Any, penalty: Any, order: Any, weights: Any) -> tuple[float, float]:
        """Take a step on each batch of the examples in this order, from the parameters in `vector`.

        `penalty` has a factor for each parameter, and `weights` has the weight of each example. Returns the mean loss,
        and twice the penalty in it. Raises ArithmeticError if a number is not finite.
        """
        if not np.isfinite(vector).all():
            raise FloatingPointError("a weight is not finite")
        if not np.array_equal(vector, self.vector):
            self.loss.load(vector)
        if not np.array_equal(penalty, self._penalty):
            self._penalty, self.optimizer.penalty = penalty, penalty.tolist()
        starts = np.arange(0, len(order), self._size)
        lengths, totals = np.diff(starts, append=len(order)), np.add.reduceat(weights, starts)
        if not totals.all():
            raise ValueError("a batch's weights sum to zero: leave out examples of weight 0, or use larger batches")
        self.columns[-1][order] = weights * np.repeat(lengths / totals, lengths)  # their mean over each batch is 1
        self.vector, found, doubled = None, 0.0, 0.0  # or an interrupted epoch would pass for one that has not begun
        for length in np.unique(lengths)[::-1].tolist():  # the last batch may be smaller, and weighs less
            batches = lengths == length
            self.optimizer.added[:] = array("d", bytes(8 * len(penalty)))
            found += length * self._steps(order, 1 / totals[batches], int(starts[batches][0]), length)
            doubled += length * float(np.sum(self.optimizer.added))
        self.vector = np.array(self._step.numbers())
        return found / len(order), doubled / len(order)

    def _steps(self, order: Any, shares: Any, start: int, size: int) -> float:
        """Take a step for each share, on batches of this size from `start` on. Returns the sum of their mean losses."""
        rates, found = array("d", shares.tobytes()), array("d", bytes(shares.nbytes))
        places = array("q", order.astype("q").tobytes())
        done = self._step.run_steps(self._examples, rates, found, order=places, size=size, position=start)
        if done < len(rates) and self._step.is_native:
            raise FloatingPointError("a loss or a weight is not finite")
        for k in range(done, len(rates)):  # without a C compiler
            self.optimizer.learning_rate, first = rates[k], start + k * size
            found[k] = self._step(*[column[order[first : first + size]] for column in self.columns])
        return float(sum(found))


class _Compiled(BaseEstimator):
    """The methods in which scikit-learn's estimators compute, on compiled code; all others are theirs."""

    coefs_: list[Any]
    intercepts_: list[Any]
    batch_size: Any

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        network = state.pop("_kept", None)
        if network and network.optimizer:
            state["_optimizer"] = copy(self._optimizer)
            state["_optimizer"].state = network.optimizer.state_dict()
        return state

    @property
    def _network(self) -> _Network:
        """The network of this shape, which is the same as long as the shape is."""
        key = (len(self.coefs_[0]), *map(len, self.intercepts_)), self.activation, self.out_activation_
        if getattr(self.__dict__.get("_kept"), "key", None) != key:
            self._kept = _Network(*key)
        return self._kept

    def _layers(self, vector: Any) -> tuple[list[Any], list[Any]]:
        """The weights and the biases of each layer, from a vector of all."""
        ends = np.cumsum([w.size + b.size for w, b in zip(self.coefs_, self.intercepts_, strict=True)])
        parts = zip(np.split(vector, ends[:-1]), self.intercepts_, strict=True)
        layers = [part.reshape(len(b), -1) for part, b in parts]
        return [layer[:, :-1].T.copy() for layer in layers], [layer[:, -1].copy() for layer in layers]

    def _columns(self, X: Any, y: Any, sample_weight: Any) -> list[Any]:
        """The arguments of the compiled loss; with softmax, a target is the index of its class."""
        targets = y.argmax(axis=1) if self.out_activation_ == "softmax" else y
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight / sample_weight.mean()
        return [_doubles(column) for column in (X, targets, weights)]

    def _forward_pass_fast(self, X: Any, check_input: bool = True) -> Any:
        """The outputs for examples; in scikit-learn's loop, which does not check them, X has only their indices."""
        if check_input:
            X = _doubles(validate_data(self, X, accept_sparse=["csr", "csc"], reset=False))
        else:
            X = self._network.columns[0][X[:, 0]]
        return self._network.outputs(_vector(self.coefs_, self.intercepts_), X)

    def _fit_stochastic(self, X: Any, y: Any, sample_weight: Any, *others: Any) -> None:
        """Train by Adam or SGD, in scikit-learn's loop: it gets the indices of examples, and takes all as one batch."""
        n, given = X.shape[0], self.batch_size
        n -= math.ceil(self.validation_fraction * n) if self.early_stopping else 0
        size = min(200 if given == "auto" else given, n)
        if given not in ("auto", size):
            warnings.warn(f"batch_size={given} is clipped to the number of examples, {n}", stacklevel=5)
        self._network.set_examples(self._columns(X, y, sample_weight), size)
        self.batch_size = n
        try:
            super()._fit_stochastic(np.arange(X.shape[0])[:, np.newaxis], y, sample_weight, *others)
        except ArithmeticError as error:
            raise ValueError(
                "Solver produced non-finite parameter weights. The input data may contain large values and need to be "
                "preprocessed: put a StandardScaler before the estimator, or lower its learning_rate_init"
            ) from error
        finally:
            self.batch_size = given

    def _backprop(self, X: Any, y: Any, sample_weight: Any, *buffers: Any) -> tuple[float, list[Any], list[Any]]:
        """The loss of all examples, and the gradients of the weights and biases, as L-BFGS needs them.

        In scikit-learn's loop for Adam and SGD, it takes all steps of an epoch itself, and returns gradients of 0: with
        these, scikit-learn's optimizer changes nothing.
        """
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        network, vector = self._network, _vector(self.coefs_, self.intercepts_)
        if self.solver == "lbfgs":
            objective, _ = network.loss.objective(*self._columns(X, y, weights))
            mean, gradient = objective(vector)
            coefs, intercepts = self._layers(gradient)
            coefs = [grad + w * (self.alpha / weights.sum()) for grad, w in zip(coefs, self.coefs_, strict=True)]
            doubled = self.alpha * sum(np.vdot(w, w) for w in self.coefs_) / weights.sum()
        else:
            network.follow(self._optimizer)
            penalty = _vector([np.full(w.shape, self.alpha) for w in self.coefs_], map(np.zeros_like, self.intercepts_))
            try:
                mean, doubled = network.run_epoch(vector, penalty, X[:, 0], weights)
            except ArithmeticError:
                if not self.early_stopping:
                    raise
                # scikit-learn goes on with NaN, and in the end takes the weights of the best epoch.
                mean, doubled, network.vector = math.nan, math.nan, np.full_like(vector, math.nan)
            weights = network.columns[-1][X[:, 0]]
            for arrays, layers in zip((self.coefs_, self.intercepts_), self._layers(network.vector), strict=True):
                for i, layer in enumerate(layers):
                    arrays[i] = arrays[i].astype(layer.dtype, copy=False)
                    arrays[i][:] = layer  # in place, as scikit-learn does: the best weights may be these very arrays
            coefs = intercepts = [0.0] * len(self.coefs_)
        if self.out_activation_ == "identity":  # scikit-learn's losses differ from the network's
            mean /= self.n_outputs_
        elif self.out_activation_ == "exp":
            mean += np.average(xlogy(y, y) - y, axis=0, weights=weights).sum()
        return float(mean + 0.5 * doubled), coefs, intercepts


class MLPClassifier(_Compiled, neural_network.MLPClassifier):
    """scikit-learn's `MLPClassifier` on compiled code; its documentation holds, as this module says."""


class MLPRegressor(_Compiled, neural_network.MLPRegressor):
    """scikit-learn's `MLPRegressor` on compiled code; its documentation holds, as this module says."""


def _vector(coefs: Any, intercepts: Any) -> Any:
    """All weights in the order of the network's parameters: for each neuron, those of its inputs, and its bias."""
    layers = [np.vstack([w, b]).T.ravel() for w, b in zip(coefs, intercepts, strict=True)]
    return np.concatenate(layers, dtype=np.float64)


def _doubles(column: Any) -> Any:
    """A dense array that compiled code reads where it lies."""
    return np.ascontiguousarray(column.toarray() if hasattr(column, "toarray") else column, dtype=np.float64)
