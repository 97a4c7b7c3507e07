"""The benchmarks compare like with like, and their page shows the measured numbers."""

import math

import pytest

from tests.benchmarks import cold, compiled, digits, gpt, gradbench, harness, page, phrases
from tests.benchmarks.harness import CHECKOUT, Benchmark, Contestant, run
from tests.helpers import needs_compiler

BENCHMARKS = CHECKOUT / "tests" / "benchmarks"


def prepared(cost, result):
    """A contestant that always costs as much; in another process, so its numbers come as arguments."""
    return lambda: (cost, result)


def benchmark(*results):
    ours, *others = [Contestant(f"number {i}", prepared, (2.0**i, result)) for i, result in enumerate(results)]
    return Benchmark("a task", (ours,), tuple(others), rounds=2)


def test_medians_and_ratios_are_those_of_the_contestants():
    measured = run(benchmark(1.0, 1.0 + 1e-9))
    assert measured.medians == {"number 0": 1.0, "number 1": 2.0}
    assert measured.ratio("number 1", to="number 0") == 2.0


@pytest.mark.parametrize("other", [1.00001, math.nan])
def test_contestants_that_compute_different_results_are_not_compared(other):
    with pytest.raises(RuntimeError, match=r"a task: the contestants computed different results: .*number 1"):
        run(benchmark(1.0, other))


def test_the_page_and_its_charts_are_those_of_the_numbers_that_are_stored():
    stored = (BENCHMARKS / "measured.json").read_text(encoding="utf-8")
    machines, measured = page.recalled(stored)
    assert page.stored(machines, measured) == stored
    with pytest.raises(NotImplementedError, match="measured before"):
        measured["mlp"][0].benchmark.ours[0].prepare()
    written = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert machines.keys() == measured.keys()
    for machine in machines.values():
        assert written.count(f"Measured with {machine}.") >= 1
    for group in measured.values():
        for table in page.tables(group):
            for row in table:
                assert f"| {' | '.join(row)} |" in written
    results = [result for group in measured.values() for result in group]
    for name, drawn in ("benchmarks", page.draw_engines(results)), ("libraries", page.draw_libraries(results)):
        assert f"(../pictures/{name}.svg)" in written
        assert (CHECKOUT / "tests" / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == drawn


@pytest.fixture
def torch():
    """PyTorch, whose numbers contestants make doubles, for one test."""
    torch = pytest.importorskip("torch")
    kind, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield torch
    torch.set_default_dtype(kind)
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("torch")
def test_all_that_learn_the_digits_take_the_steps_of_fit(monkeypatch):
    pytest.importorskip("sklearn")
    for name, value in (("MANY", 100), ("SIZES", (64, 3, 10))):
        monkeypatch.setattr(digits, name, value)
    _, ours = digits.learn("python", 100, 3, digits.MOMENTUM, traced=True)()
    for measure in (digits.pytorch(3, True), digits.pytorch(3, False), digits.scikit_learn(3)):
        for _ in range(2):
            assert measure()[1] == pytest.approx(ours, rel=1e-9)


@pytest.mark.usefixtures("torch")
def test_the_gpts_learn_the_same_names_in_the_same_order(monkeypatch):
    monkeypatch.setattr(gpt, "EPOCHS", 2)
    monkeypatch.setattr(gpt, "NAMES", ("a", "ab", "b"))
    _, theirs = gpt.pytorch_names()()
    assert gpt.our_names("python")()[1] == pytest.approx(theirs, rel=1e-9)


@pytest.mark.usefixtures("torch")
@needs_compiler
@pytest.mark.parametrize("name", [name for name in cold.NAMES if name != "784-128-10"])
def test_both_learn_the_same_in_whole_processes_and_have_the_same_gradients(monkeypatch, name):
    monkeypatch.setattr(cold, "LENGTHS", (3, 4))
    monkeypatch.setattr(cold, "OF_EACH", 2)
    monkeypatch.setattr(gpt, "CONTEXT", 5)
    monkeypatch.setattr(harness, "LEAST", 1e-3)
    programs = {key: sized._replace(full=sized.small) for key, sized in cold.PROGRAMS.items()}
    monkeypatch.setattr(cold, "PROGRAMS", programs)
    assert cold.ours(name, 3) == pytest.approx(cold.pytorch(name, 3), rel=1e-9)
    if name in compiled.NAMES:
        assert compiled.call(name)()[1] == pytest.approx(compiled.call_pytorch(name)()[1], rel=1e-9)


@needs_compiler
@pytest.mark.parametrize("name", ["arm of many joints", "polynomial"])
def test_both_phrasings_compute_the_same(monkeypatch, name):
    programs = {key: sized._replace(full=sized.small) for key, sized in phrases.PROGRAMS.items()}
    monkeypatch.setattr(phrases, "PROGRAMS", programs)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    phrases.made.cache_clear()
    monkeypatch.setattr(harness, "LEAST", 1e-3)
    one, *others = (measure(name, i)()[1] for measure in (phrases.seconds, phrases.microseconds) for i in (0, 1))
    assert others == pytest.approx([one] * 3, rel=1e-12)
    assert phrases.kernel(name, 0)()[0] > 10
    phrases.made.cache_clear()


SMALL = {
    "gmm": (2, 3, 20), "gmm, gradient: d 10, k 5": (3, 2, 40), "ht": (3,), "ba": (2, 3, 5), "lstm": (2, 9),
    "ode, value": (5, 9, 0), "ode, gradient": (5, 9, 1), "kmeans": (3, 20, 2), "llsq": (3, 20), "lse": (20,),
    "det": (3,), "saddle": (), "particle": (), "hello": (),
}  # fmt: skip


@needs_compiler
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", gradbench.LIBRARIES)
@pytest.mark.parametrize("start", SMALL)
def test_the_programs_of_gradbench_compute_what_the_libraries_do(start, name):
    program = next(row.program for title, row in gradbench.ROWS.items() if title.startswith(start))
    if name not in program.others:
        pytest.skip("its loops in Python take a minute")
    pytest.importorskip(gradbench.LIBRARIES[name][0])
    library = gradbench.LIBRARIES[name][1]()
    tasks = (gradbench.task(who, program, SMALL[start], library) for who in ("micrograd", name))
    ours, theirs = (gradbench.flat(task()) for task in tasks)
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
