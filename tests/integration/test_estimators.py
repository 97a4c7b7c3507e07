"""The estimators keep scikit-learn's contract, and learn what scikit-learn's learn."""

import copy
import gc
import importlib
import os
import pickle
import subprocess
import sys
import warnings

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("sklearn", reason="pip install scikit-learn")

from sklearn import datasets, neural_network
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from micrograd import estimators
from micrograd.compiler import function, session
from micrograd.compiler.frontend import redirect
from micrograd.compiler.native import library
from micrograd.estimators import MLPClassifier, MLPRegressor
from tests.benchmarks import estimators as benchmark
from tests.helpers import needs_compiler

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SMALL = {"hidden_layer_sizes": (5,), "max_iter": 12, "random_state": 3, "learning_rate_init": 0.01}


def scaled(load, n):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X)[:n], y[:n]


CANCER, WINE, DIABETES = (
    scaled(load, n)
    for load, n in ((datasets.load_breast_cancer, 240), (datasets.load_wine, 178), (datasets.load_diabetes, 210))
)
DIABETES = DIABETES[0], DIABETES[1] / 50
LABELS = datasets.make_multilabel_classification(60, 4, n_classes=3, random_state=0)
TWO = DIABETES[0], np.stack([DIABETES[1], DIABETES[1] ** 2], axis=1)
COUNTS = DIABETES[0], DIABETES[1] // 1
NAMES = CANCER[0], np.array(["benign", "malign"])[CANCER[1]]
SGD = {"solver": "sgd", "batch_size": 60}

TABLE = {
    "two classes": ("MLPClassifier", CANCER, {"batch_size": 60}),
    "two names of classes": ("MLPClassifier", NAMES, {"batch_size": 60}),
    "three classes": ("MLPClassifier", WINE, {}),
    "labels": ("MLPClassifier", LABELS, {"activation": "logistic"}),
    "no hidden layer": ("MLPClassifier", WINE, {"hidden_layer_sizes": ()}),
    "several hidden layers": ("MLPClassifier", WINE, {"hidden_layer_sizes": [6, 1, 4], "activation": "identity"}),
    "one number": ("MLPRegressor", DIABETES, {"hidden_layer_sizes": 5}),
    "two numbers": ("MLPRegressor", TWO, {"batch_size": 70}),
    "counts": ("MLPRegressor", COUNTS, {"loss": "poisson"}),
    "a penalty": ("MLPClassifier", CANCER, {"alpha": 0.1, "batch_size": 60}),
    "Adam's options": ("MLPClassifier", WINE, {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 0.1}),
    "a smaller last batch": ("MLPClassifier", CANCER, {"alpha": 0.1, "batch_size": 100}),
    "in order": ("MLPClassifier", CANCER, {"shuffle": False, "batch_size": 60}),
    "SGD": ("MLPClassifier", CANCER, SGD),
    "SGD without momentum": ("MLPClassifier", CANCER, {**SGD, "momentum": 0.0}),
    "SGD without Nesterov's": ("MLPRegressor", DIABETES, {**SGD, "nesterovs_momentum": False, "activation": "tanh"}),
    "falling rates": ("MLPRegressor", DIABETES, {**SGD, "learning_rate": "invscaling", "power_t": 0.1}),
    "rates that adapt": (
        "MLPClassifier", CANCER, {**SGD, "learning_rate": "adaptive", "tol": 0.1, "n_iter_no_change": 1},
    ),
    "steep penalties": ("MLPClassifier", WINE, {"alpha": 5.0, "batch_size": 7, "learning_rate_init": 0.05}),
    "convergence with a penalty": (
        "MLPClassifier", WINE, {"alpha": 1.0, "batch_size": 8, "max_iter": 200, "learning_rate_init": 0.05},
    ),
    "convergence of SGD with a penalty": (
        "MLPClassifier", WINE, {**SGD, "alpha": 0.1, "batch_size": 7, "max_iter": 200, "learning_rate": "adaptive"},
    ),
    "convergence": ("MLPClassifier", WINE, {"tol": 0.1, "n_iter_no_change": 2, "max_iter": 300}),
    "early stopping": ("MLPClassifier", CANCER, {"early_stopping": True, "batch_size": 54, "n_iter_no_change": 3}),
    "early stopping of many": ("MLPClassifier", WINE, {"early_stopping": True, "validation_fraction": 0.3}),
    "early stopping of numbers": ("MLPRegressor", DIABETES, {"early_stopping": True, "n_iter_no_change": 2}),
    "L-BFGS": ("MLPClassifier", CANCER, {"solver": "lbfgs", "alpha": 0.1}),
    "L-BFGS of two numbers": ("MLPRegressor", TWO, {"solver": "lbfgs", "alpha": 0.1, "max_iter": 4}),
}  # fmt: skip


def theirs_and_ours(kind, **options):
    """scikit-learn's estimator and ours, with the same arguments."""
    return [getattr(module, kind)(**options) for module in (neural_network, estimators)]


def assert_same(theirs, ours, X):
    """Both have learned the same, and say so."""
    for name, value in vars(theirs).items():
        if name.endswith("_") and name not in ("coefs_", "intercepts_", "classes_", "out_activation_"):
            np.testing.assert_allclose(
                np.array(getattr(ours, name), dtype=float), np.array(value, dtype=float), rtol=1e-9, err_msg=name
            )
    for one, other in zip(theirs.coefs_ + theirs.intercepts_, ours.coefs_ + ours.intercepts_, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(getattr(ours, "classes_", 0), getattr(theirs, "classes_", 0))
    assert ours.out_activation_ == theirs.out_activation_
    for method in ("predict_proba", "predict_log_proba") if hasattr(theirs, "predict_proba") else ("predict",):
        np.testing.assert_allclose(getattr(ours, method)(X), getattr(theirs, method)(X), rtol=1e-5, atol=1e-6)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99 or hasattr(theirs, "loss")


@pytest.mark.parametrize(("kind", "data", "options"), TABLE.values(), ids=TABLE)
def test_the_same_weights_are_learned(kind, data, options, capsys):
    theirs, ours = theirs_and_ours(kind, **{**SMALL, "verbose": options.get("solver") != "lbfgs", **options})
    theirs.fit(*data)
    said = capsys.readouterr().out
    assert ours.fit(*data) is ours
    assert [line.split("loss")[0] for line in capsys.readouterr().out.splitlines()] == [
        line.split("loss")[0] for line in said.splitlines()
    ]
    assert_same(theirs, ours, data[0])
    assert ours.score(*data) == pytest.approx(theirs.score(*data), abs=0.01)


@pytest.mark.parametrize("solver", ["adam", "sgd", "lbfgs"])
def test_examples_may_have_weights(solver):
    X, y = CANCER
    weights = np.random.RandomState(0).randint(0, 4, len(X)).astype(float)
    options = {"alpha": 0.1, "batch_size": 50} if solver != "lbfgs" else {"max_iter": 5}
    theirs, ours = theirs_and_ours("MLPClassifier", **{**SMALL, "solver": solver, **options})
    assert_same(theirs.fit(X, y, weights), ours.fit(X, y, sample_weight=weights), X)
    theirs, ours = theirs_and_ours("MLPRegressor", **SMALL, early_stopping=True)
    assert_same(theirs.fit(X, y, weights), ours.fit(X, y, weights), X)


def test_sparse_examples_are_examples():
    sparse = pytest.importorskip("scipy.sparse")
    ours = MLPClassifier(**SMALL).fit(*WINE)
    again = MLPClassifier(**SMALL).fit(sparse.csr_array(WINE[0]), WINE[1])
    np.testing.assert_array_equal(again.predict_proba(sparse.csc_array(WINE[0])), ours.predict_proba(WINE[0]))


@pytest.mark.long
@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor], ids=["classifier", "regressor"])
def test_scikit_learns_checks_pass(kind):
    learns_soon = {"hidden_layer_sizes": (20,), "learning_rate_init": 0.01, "max_iter": 40}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(**learns_soon), on_skip=None)
    assert len(results) > 50
    assert {result["status"] for result in results} <= {"passed", "skipped"}


# In other tools


@pytest.mark.long
def test_pipelines_searches_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(8,), max_iter=60, random_state=0))
    X, y = datasets.load_wine(return_X_y=True)
    assert cross_val_score(pipeline.set_params(mlpclassifier__learning_rate_init=0.01), X, y).mean() > 0.95
    search = GridSearchCV(pipeline, {"mlpclassifier__alpha": [1e-4, 1.0]}, n_jobs=2, cv=3).fit(X, y)
    assert search.best_score_ > 0.95
    assert search.predict(X[:2]).tolist() == [0, 0]


def test_clones_and_later_fits_trace_and_compile_nothing(monkeypatch):
    ours = MLPClassifier(**SMALL).fit(*WINE)
    expected = ours.predict_proba(WINE[0])
    monkeypatch.setattr(function, "Graph", None)
    monkeypatch.setattr(library, "c_source", None)
    np.testing.assert_array_equal(ours.fit(*WINE).predict_proba(WINE[0]), expected)
    np.testing.assert_array_equal(clone(ours).fit(*WINE).predict_proba(WINE[0]), expected)
    clone(ours).set_params(alpha=1.0, learning_rate_init=0.1, batch_size=50, solver="sgd").fit(*WINE)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda ours: pickle.loads(pickle.dumps(ours))], ids=["copy", "pickle"]
)
def test_a_copy_predicts_the_same_and_goes_on_as_the_original_would(copied):
    X, y = WINE
    ours = MLPClassifier(**SMALL).partial_fit(X, y, classes=[0, 1, 2])
    other = copied(ours)
    assert vars(ours).keys() - vars(other).keys() == {"_kept"}
    np.testing.assert_array_equal(other.predict_proba(X), ours.predict_proba(X))
    for _ in range(2):
        np.testing.assert_array_equal(other.partial_fit(X, y).predict_proba(X), ours.partial_fit(X, y).predict_proba(X))
    other = copied(ours).set_params(solver="sgd").partial_fit(X, y)  # which keeps its optimizer, as scikit-learn's does
    np.testing.assert_array_equal(other.predict_proba(X), ours.partial_fit(X, y).predict_proba(X))
    assert copied(MLPClassifier(**SMALL, solver="lbfgs").fit(X, y)).score(X, y) > 0.9
    assert not hasattr(copied(MLPClassifier()), "coefs_")


def test_changed_weights_are_used():
    ours = MLPRegressor(**SMALL).fit(*DIABETES)
    before = ours.predict(DIABETES[0])
    ours.intercepts_[-1] += 1.0
    np.testing.assert_allclose(ours.predict(DIABETES[0]), before + 1.0)


@needs_compiler
def test_what_a_training_holds_is_given_back():
    gc.collect()
    before = len(redirect._buffers)
    ours = MLPClassifier(**SMALL).fit(*WINE)
    assert len(redirect._buffers) > before
    del ours
    gc.collect()
    assert len(redirect._buffers) == before


# Further training


@pytest.mark.parametrize("options", [{}, SGD, {**SGD, "learning_rate": "invscaling"}], ids=["Adam", "SGD", "rates"])
def test_partial_fit_goes_on(options):
    X, y = WINE
    theirs, ours = theirs_and_ours("MLPClassifier", **{**SMALL, **options})
    for part in (slice(0, 60), slice(60, 120), slice(118, 178)):
        for estimator in (theirs, ours):
            estimator.partial_fit(X[part], y[part], classes=[0, 1, 2]).set_params(alpha=0.1)
    assert_same(theirs, ours, X)
    theirs, ours = theirs_and_ours("MLPRegressor", **{**SMALL, **options})
    for _ in range(3):
        theirs.partial_fit(*TWO), ours.partial_fit(*TWO)
    assert_same(theirs, ours, X=TWO[0])


def test_a_warm_start_goes_on_from_the_weights():
    theirs, ours = theirs_and_ours("MLPClassifier", **SMALL, warm_start=True)
    for solver in ("adam", "sgd", "lbfgs", "adam"):
        theirs.set_params(solver=solver).fit(*WINE), ours.set_params(solver=solver).fit(*WINE)
        assert_same(theirs, ours, WINE[0])


def test_a_warm_start_with_early_stopping_goes_on_from_the_best_weights_which_it_changes():
    options = {**SMALL, "max_iter": 4, "warm_start": True, "early_stopping": True, "learning_rate_init": 0.05}
    theirs, ours = theirs_and_ours("MLPClassifier", **options)
    for _ in range(4):
        assert_same(theirs.fit(*WINE), ours.fit(*WINE), WINE[0])


def test_early_stopping_keeps_the_best_weights_of_a_training_that_diverges():
    options = {**SMALL, **SGD, "hidden_layer_sizes": (4,), "activation": "identity", "early_stopping": True}
    theirs, ours = theirs_and_ours("MLPRegressor", **{**options, "learning_rate_init": 0.1, "batch_size": 10})
    with np.errstate(all="ignore"):
        theirs.fit(*DIABETES), ours.fit(*DIABETES)
    for one in theirs, ours:
        assert np.isnan(one.validation_scores_).tolist() == [False] + [True] * 11
    assert_same(theirs, ours, DIABETES[0])


def test_a_batch_without_weight_is_an_error():
    weights = (np.arange(len(WINE[0])) < 20) * 1.0
    with pytest.raises(ValueError, match="a batch's weights sum to zero: leave out examples of weight 0"):
        MLPClassifier(**SMALL, batch_size=10, shuffle=False).fit(*WINE, weights)


def test_a_fit_starts_over():
    ours = MLPClassifier(**SMALL).fit(*WINE)
    expected = ours.predict_proba(WINE[0])
    ours.partial_fit(*WINE).set_params(solver="sgd").fit(*WINE).set_params(solver="adam").fit(*WINE)
    np.testing.assert_array_equal(ours.predict_proba(WINE[0]), expected)


# What is measured


def test_the_benchmark_compares_like_with_like(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ["XDG_CACHE_HOME"])  # which measuring changes
    monkeypatch.setattr(benchmark, "TASKS", {"a small one": {"hidden_layer_sizes": (3,), "max_iter": 3}})
    monkeypatch.setattr(benchmark, "SEEDS", 2)
    [one] = benchmark.benchmarks()
    results = [contestant.prepare(*contestant.arguments)()[1] for contestant in one.ours + one.others]
    assert results == pytest.approx([results[0]] * 4, rel=one.tolerance)
    ours, theirs = (benchmark.scores(module, "wine") for module in ("micrograd.estimators", "sklearn.neural_network"))
    assert ours == pytest.approx(theirs)


# What goes wrong


class Interrupting(np.random.RandomState):
    """As if Ctrl-C were pressed before the third epoch."""

    epochs = 0

    def shuffle(self, order):
        self.epochs += 1
        if self.epochs == 3:
            raise KeyboardInterrupt
        super().shuffle(order)


def test_ctrl_c_keeps_what_was_learned():
    ours = MLPClassifier(**{**SMALL, "random_state": Interrupting(3)})
    with pytest.warns(UserWarning, match="Training interrupted by user"):
        ours.fit(*WINE)
    expected = MLPClassifier(**{**SMALL, "max_iter": 2}).fit(*WINE)
    np.testing.assert_array_equal(ours.coefs_[0], expected.coefs_[0])


def test_ctrl_c_within_an_epoch_leaves_the_weights_of_the_one_before(monkeypatch):
    numbers, epochs = session.Training.numbers, iter(range(5))
    options = {**SMALL, "shuffle": False, "warm_start": True}

    def interrupted(training):
        if next(epochs) == 1:
            raise KeyboardInterrupt
        return numbers(training)

    with monkeypatch.context() as patch:
        patch.setattr(session.Training, "numbers", interrupted)
        with pytest.warns(UserWarning, match="Training interrupted by user"):
            ours = MLPClassifier(**options).fit(*WINE)
    expected = MLPClassifier(**{**options, "max_iter": 1}).fit(*WINE)
    np.testing.assert_array_equal(ours.coefs_[0], expected.coefs_[0])
    expected.set_params(max_iter=12)
    np.testing.assert_array_equal(ours.fit(*WINE).coefs_[0], expected.fit(*WINE).coefs_[0])


def test_warnings():
    with pytest.warns(ConvergenceWarning, match=r"Maximum iterations \(12\) reached"):
        MLPClassifier(**SMALL).fit(*WINE)
    with pytest.warns(UserWarning, match="batch_size=500 is clipped to the number of examples, 178") as caught:
        MLPClassifier(**SMALL, batch_size=500).fit(*WINE)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("compiles", [pytest.param(True, marks=needs_compiler), False], ids=["C", "NumPy"])
def test_numbers_that_are_not_finite(compiles, monkeypatch):
    if not compiles:
        monkeypatch.setenv("CC", "/nonexistent")
        estimators._pickled.cache_clear()
    ours = MLPRegressor(**{**SMALL, **SGD, "hidden_layer_sizes": (2,), "learning_rate_init": 1e4})
    with pytest.raises(ValueError, match="non-finite parameter weights.*a StandardScaler before the estimator"):
        ours.fit(*DIABETES)
    estimators._pickled.cache_clear()


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CC", "/nonexistent")
    estimators._pickled.cache_clear()
    theirs, ours = theirs_and_ours("MLPClassifier", **SMALL, batch_size=50)
    weights = np.linspace(0.0, 1.0, len(WINE[0]))
    assert_same(theirs.fit(*WINE, weights), ours.fit(*WINE, weights), WINE[0])
    estimators._pickled.cache_clear()


@pytest.mark.parametrize(
    ("options", "X", "y", "message"),
    [
        ({}, [[1.0], [np.nan]], [0, 1], "Input X contains NaN"),
        ({}, [[1.0], [np.inf]], [0, 1], "Input X contains infinity"),
        ({}, [["a"], ["b"]], [0, 1], "could not convert string to float: 'a'"),
        ({}, [1.0, 2.0], [0, 1], "Expected 2D array, got 1D array instead"),
        ({}, [[1.0], [2.0]], [0, 1, 1], r"inconsistent numbers of samples: \[2, 3\]"),
        ({}, [[1.0], [2.0]], [0.5, 1.5], "Unknown label type"),
        ({"hidden_layer_sizes": (0,)}, [[1.0], [2.0]], [0, 1], r"hidden_layer_sizes must be > 0, got \[0\]"),
        ({"solver": "newton"}, [[1.0], [2.0]], [0, 1], "'solver' parameter of MLPClassifier must be a str among"),
        ({"alpha": -1.0}, [[1.0], [2.0]], [0, 1], "'alpha' parameter of MLPClassifier must be a float in the range"),
        ({"early_stopping": True}, [[1.0]] * 6, [0, 1, 2] * 2, "The validation set is too small"),
    ],
)
def test_bad_input(options, X, y, message):
    with pytest.raises(ValueError, match=message):
        MLPClassifier(**options).fit(X, y)


def test_calls_out_of_place():
    with pytest.raises(NotFittedError, match="This MLPClassifier instance is not fitted yet"):
        MLPClassifier().predict([[1.0]])
    with pytest.raises(ValueError, match="X has 1 features, but MLPRegressor is expecting 10 features as input"):
        MLPRegressor(**SMALL).fit(*DIABETES).predict([[1.0]])
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        MLPClassifier().partial_fit(*WINE)
    with pytest.raises(ValueError, match="`y` has classes not in `self.classes_`"):
        MLPClassifier().partial_fit(*WINE, classes=[0, 1])
    with pytest.raises(ValueError, match="partial_fit does not support early_stopping=True"):
        MLPClassifier(early_stopping=True).partial_fit(*WINE, classes=[0, 1, 2])
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'"):
        MLPClassifier(solver="lbfgs").partial_fit(*WINE, classes=[0, 1, 2])


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "micrograd.estimators")
    with pytest.raises(ImportError, match="micrograd.estimators needs scikit-learn.*: pip install scikit-learn"):
        importlib.import_module("micrograd.estimators")


def test_nothing_else_imports_scikit_learn():
    source = "import micrograd, micrograd.viz, micrograd.compiler, sys; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, text=True).stdout == "False\n"
