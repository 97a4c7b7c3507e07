"""A saved model is restored to the last bit, a save leaves the old file or the new one, and no file is trusted."""

import errno
import json
import os
import pickle
import random
import re
import stat
import struct
import subprocess
import sys
import tracemalloc
from fractions import Fraction

import pytest

from micrograd import Value, fit, losses, nn
from micrograd.support import files

MODELS = {
    "neuron": lambda: nn.Neuron(3, "sigmoid", rng=1),
    "layer": lambda: nn.Layer(2, 3, "relu", rng=1),
    "layer of one": lambda: nn.Layer(2, 1, "softplus", rng=1),
    "mlp": lambda: nn.MLP(2, [4, 3, 1], "leaky_relu", "linear", rng=1),
    "embedding": lambda: nn.Embedding(4, 3, rng=1),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.json"


def bits(module):
    return [struct.pack(">d", number) for number in module.state_dict().values()]


# State


def test_a_state_goes_into_a_module_of_the_same_shape():
    model, other = nn.MLP(2, [3, 1], rng=1), nn.MLP(2, [3, 1], rng=2)
    state = model.state_dict()
    assert list(state) == [name for name, _ in model.named_parameters()]
    assert list(state.values()) == [parameter.data for parameter in model.parameters()]
    parameters = other.parameters()
    other.load_state_dict(state)
    assert bits(other) == bits(model)
    assert all(a is b for a, b in zip(other.parameters(), parameters, strict=True))


def test_a_state_is_a_copy():
    model = nn.Neuron(1, rng=1)
    state = model.state_dict()
    model.b.data = 5.0
    assert state["b"] == 0.0
    state["w.0"] = 7.0
    assert model.w[0].data != 7.0


def test_a_state_keeps_what_is_no_float():
    model = nn.Neuron(2, rng=1)
    model.load_state_dict({"w.0": Fraction(1, 3), "w.1": float("inf"), "b": 2})
    assert model.state_dict() == {"w.0": Fraction(1, 3), "w.1": float("inf"), "b": 2}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda state: state.pop("b"), ValueError, r"missing: \['b'\], unknown: \[\]"),
        (lambda state: state.update(c=1.0), ValueError, r"missing: \[\], unknown: \['c'\]"),
        (lambda state: state.update({5: 1.0}), ValueError, r"unknown: \['5'\]"),
        (lambda state: state.update(b="1.0"), TypeError, "^b: a Value holds a number"),
        (lambda state: state.update(b=None), TypeError, "^b: "),
        (lambda state: state.update(b=Value(1.0)), TypeError, "^b: "),
        (lambda state: state.update(b=[1.0]), TypeError, "^b: "),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change, error, message):
    model = nn.Neuron(2, rng=1)
    before = model.state_dict()
    state = nn.Neuron(2, rng=2).state_dict()
    change(state)
    with pytest.raises(error, match=message):
        model.load_state_dict(state)
    assert model.state_dict() == before


@pytest.mark.parametrize(("state", "came"), [([], r"\[\]"), (None, "None")])
def test_what_is_no_state_at_all_is_named(state, came):
    with pytest.raises(TypeError, match=f"state is {came}: expected a dict of numbers by name, as state_dict"):
        nn.Neuron(2).load_state_dict(state)


# There and back


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_comes_back_to_the_last_bit(path, make):
    model = make()
    nn.save(model, path)
    loaded = nn.load(str(path))
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert bits(loaded) == bits(model)
    x = 2 if isinstance(model, nn.Embedding) else [0.3, -0.7, 1.1][: len(getattr(model, "w", "12"))]
    assert repr(loaded(x)) == repr(model(x))


def test_every_finite_float_comes_back_to_the_last_bit(path):
    rng = random.Random(1)
    numbers = [0.0, -0.0, 5e-324, -5e-324, sys.float_info.max, sys.float_info.min, 0.1, 1 / 3, 1e16, 1e22, 2.0**53]
    while len(numbers) < 2000:
        [number] = struct.unpack(">d", rng.randbytes(8))
        if abs(number) <= sys.float_info.max:
            numbers.append(number)
    model = nn.Neuron(len(numbers), rng=1)
    for w, number in zip(model.w, numbers, strict=True):
        w.data = number
    nn.save(model, path)
    assert bits(nn.load(path)) == bits(model)


def test_layers_and_neurons_keep_activations_of_their_own(path):
    model = nn.MLP(2, [2, 2, 1], rng=1)
    model.layers[0] = nn.Layer(2, 2, "relu", rng=2)
    model.layers[1].neurons[1] = nn.Neuron(2, "sigmoid", rng=3)
    nn.save(model, path)
    assert repr(nn.load(path)([0.5, 2.0])) == repr(model([0.5, 2.0]))


def test_loading_and_saving_leave_the_random_numbers_alone(path):
    random.seed(1)
    expected = random.random()
    random.seed(1)
    nn.save(nn.MLP(2, [2], rng=1), path)
    nn.load(path)
    assert random.random() == expected


def test_a_whole_number_is_saved_as_the_float_it_equals(path):
    model = nn.Neuron(1, rng=1)
    model.b.data = 2
    nn.save(model, path)
    assert nn.load(path).b.data == 2.0


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "longdouble", "int64"])
def test_a_number_of_another_kind_is_saved_as_the_float_it_equals(path, kind):
    numpy = pytest.importorskip("numpy")
    model = nn.Neuron(2, rng=1)
    model.w[0].data, model.w[1].data = getattr(numpy, kind)(3), Fraction(1, 4)
    nn.save(model, path)
    assert bits(nn.load(path)) == [struct.pack(">d", x) for x in (3.0, 0.25, 0.0)]


def altered(change):
    model = nn.MLP(2, [2, 1], rng=1)
    change(model)
    return model


class Custom(nn.MLP):
    pass


Imposter = type("MLP", (nn.MLP,), {})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Custom(2, [1]), "nn.save cannot write this Custom: it knows"),
        (Custom(2, [1]), "but model is of type Custom"),
        (Imposter(2, [1]), "it knows Neuron, Layer, MLP or Embedding, but"),
        (nn.Module(), "it knows Neuron, Layer, MLP or Embedding, but"),
        (altered(lambda m: m.layers.append(m.layers)), "recursion"),
        (nn.Neuron(2, lambda x: x), "activation is <function.*expected a name"),
        (altered(lambda m: setattr(m, "scale", Value(1.0))), r"\['layers', 'scale', 'type'\]"),
        (altered(lambda m: m.layers.append(Custom(1, [1]))), r"model.layers.2 is of type Custom"),
        (
            altered(lambda m: m.layers.append(nn.Layer(3, 1))),
            r"Layer\(3 -> 1, tanh\) cannot follow Layer\(2 -> 1, linear\)",
        ),
        (altered(lambda m: m.layers.clear()), "layers is .*at least one"),
        (altered(lambda m: m.layers[0].neurons[0].w.pop()), "have different numbers of weights"),
        (altered(lambda m: m.layers[0].neurons.append(m.layers[0].neurons[0])), "Layer"),
        (altered(lambda m: setattr(m.layers[0].neurons[0], "b", m.layers[0].neurons[1].b)), "share a parameter"),
        (altered(lambda m: setattr(m.layers[1].neurons[0].b, "data", float("nan"))), "1.neurons.0.b is nan: expected"),
        (altered(lambda m: setattr(m.layers[1].neurons[0].b, "data", float("-inf"))), "-inf: expected a finite"),
        (altered(lambda m: setattr(m.layers[1].neurons[0].b, "data", Fraction(1, 3))), "a float cannot represent"),
        (altered(lambda m: setattr(m.layers[1].neurons[0].b, "data", 2**53 + 1)), "a float cannot represent"),
        (altered(lambda m: setattr(m.layers[1].neurons[0].b, "data", 10**400)), "too large"),
        (altered(lambda m: m.layers.append(nn.Embedding(2, 1))), r"model.layers.2 is .*: expected a Layer"),
    ],
)
def test_what_could_not_be_loaded_as_it_was_is_not_saved(path, model, message):
    path.write_text("the old file")
    with pytest.raises(ValueError, match=message):
        nn.save(model, path)
    assert path.read_text() == "the old file"
    assert os.listdir(path.parent) == [path.name]


def test_what_is_no_model_is_not_saved_and_its_contents_not_printed(path):
    for something in ({"w": 1.0}, str(path), [nn.Neuron(1)], None):
        with pytest.raises(TypeError, match=f"^model is of type {type(something).__name__}: expected a Neuron"):
            nn.save(something, path)
    assert not path.exists()


# The file is the old one or the new one


def test_the_file_is_json_with_a_format_and_a_version(path):
    nn.save(nn.Neuron(1, "relu", rng=1), path)
    document = json.loads(path.read_text())
    assert (document["format"], document["version"]) == ("micrograd", 1)
    assert document["content"]["activation"] == "relu"


def test_a_file_of_version_1_stays_readable(path):
    """What this version has written, letter for letter: never change it, add another for the next version."""
    path.write_text(
        '{"format": "micrograd", "version": 1, "content": {"type": "MLP", "layers": [{"type": "Layer", "neurons": '
        '[{"type": "Neuron", "activation": "tanh", "w": [0.1, -2.0], "b": 1e-300}]}]}}\n'
    )
    model = nn.load(path)
    assert repr(model) == "MLP(2 -> 1 tanh, 3 parameters)"
    assert model.state_dict() == {
        "layers.0.neurons.0.w.0": 0.1, "layers.0.neurons.0.w.1": -2.0, "layers.0.neurons.0.b": 1e-300,
    }  # fmt: skip
    content = path.read_bytes()
    nn.save(model, path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("without a number"), KeyboardInterrupt()]
)
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch, function, error):
    old = nn.Neuron(2, rng=1)
    nn.save(old, path)

    def fail(*arguments):
        raise error

    monkeypatch.setattr(f"micrograd.support.files.os.{function}", fail)
    with pytest.raises(type(error)):
        nn.save(nn.Neuron(2, rng=2), path)
    assert bits(nn.load(path)) == bits(old)
    assert os.listdir(path.parent) == [path.name]


def test_the_file_is_complete_on_the_disk_before_it_is_moved_into_place(path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(number):
        calls.append(("fsync", os.fstat(number).st_size))
        fsync(number)

    def recording_replace(source, target):
        calls.append(("replace", os.path.getsize(source)))
        assert os.path.dirname(source) == os.path.dirname(target)
        replace(source, target)

    monkeypatch.setattr("micrograd.support.files.os.fsync", recording_fsync)
    monkeypatch.setattr("micrograd.support.files.os.replace", recording_replace)
    nn.save(nn.Neuron(2, rng=1), path)
    size = path.stat().st_size
    assert calls == [("fsync", size), ("replace", size)]


def test_a_path_that_cannot_be_written_to_is_an_oserror_that_names_it(path):
    model, missing = nn.Neuron(2, rng=1), path / "missing" / "model.json"
    with pytest.raises(FileNotFoundError) as caught:
        nn.save(model, missing)
    assert (caught.value.filename, str(caught.value).count("'")) == (str(missing), 2)
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        nn.save(model, path)
    assert (caught.value.filename, str(caught.value).count("'")) == (str(path), 2)
    assert os.listdir(path.parent) == [path.name]


def test_a_full_disk_is_an_oserror_that_names_the_path(path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("micrograd.support.files.os.fsync", full)
    with pytest.raises(OSError) as caught:
        nn.save(nn.Neuron(2, rng=1), path)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names, as POSIX has them")
def test_a_pipe_and_a_link_to_one_get_the_model_and_stay(path):
    model, link = nn.Neuron(2, rng=1), path.parent / "link"
    os.mkfifo(path)
    link.symlink_to(path.name)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for name in (path, link):
            nn.save(model, name)
            copy = path.parent / "copy"
            copy.write_bytes(os.read(reader, 10_000))
            assert bits(nn.load(copy)) == bits(model)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert link.is_symlink()


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="files that are open have names")
def test_a_pipe_that_is_open_gets_the_model_by_its_name(path):
    """As standard output does, whose name leads to nothing that one could put a file beside."""
    reader, writer = os.pipe()
    try:
        nn.save(nn.Neuron(2, rng=1), f"/dev/fd/{writer}")
        path.write_bytes(os.read(reader, 10_000))
    finally:
        os.close(reader)
        os.close(writer)
    assert bits(nn.load(path)) == bits(nn.Neuron(2, rng=1))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_keeps_the_old_file(path):
    old = nn.Neuron(2, rng=1)
    nn.save(old, path)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            nn.save(nn.Neuron(2, rng=2), path)
        assert bits(nn.load(path)) == bits(old)
    finally:
        path.parent.chmod(0o700)


def test_a_write_protected_file_stays_as_it_is(path):
    old = nn.Neuron(2, rng=1)
    nn.save(old, path)
    path.chmod(0o444)
    with pytest.raises(PermissionError) as caught:
        nn.save(nn.Neuron(2, rng=2), path)
    assert caught.value.filename == str(path)
    assert bits(nn.load(path)) == bits(old)
    assert os.listdir(path.parent) == [path.name]
    path.chmod(0o644)
    nn.save(nn.Neuron(2, rng=2), path)
    assert bits(nn.load(path)) == bits(nn.Neuron(2, rng=2))


@pytest.mark.skipif(os.name != "posix", reason="permissions and links as POSIX has them")
def test_a_save_keeps_the_permissions_and_the_link(path, tmp_path):
    nn.save(nn.Neuron(2, rng=1), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask()
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    new = nn.Neuron(2, rng=2)
    nn.save(new, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert bits(nn.load(path)) == bits(new)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


SAVER = """
import sys
from micrograd import nn
models = [nn.MLP(8, [32, 1], rng=seed) for seed in (1, 2)]
print("ready", flush=True)
while True:
    for model in models:
        nn.save(model, sys.argv[1])
"""


@pytest.mark.parametrize("delay", range(5))
def test_a_process_killed_while_saving_leaves_a_whole_file(path, delay):
    models = [nn.MLP(8, [32, 1], rng=seed) for seed in (1, 2)]
    nn.save(models[0], path)
    with subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05 + 0.0137 * delay)
        process.kill()
    assert bits(nn.load(path)) in [bits(model) for model in models]


# No file is trusted


def content(**changes):
    """A document of one neuron, with changes."""
    return {"type": "Neuron", "activation": "tanh", "w": [1.0, 2.0], "b": 0.5, **changes}


def document(content, **changes):
    return json.dumps({"format": "micrograd", "version": 1, "content": content, **changes})


def layer(*neurons):
    return {"type": "Layer", "neurons": list(neurons)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("PK\x03\x04", "Expecting value"),
        ("null", "not written by micrograd"),
        ("[]", "not written by micrograd"),
        ("{}", "not written by micrograd"),
        (document(content(), format="other"), "not written by micrograd"),
        (document(content(), more=1), "not written by micrograd"),
        (document(content(), version=2), "has version 2.0, but this micrograd reads version 1"),
        (document(content(), version=True), "has version True"),
        (document(content(), version="1"), "has version '1'"),
        (document(content()) + "{}", "it is not JSON, or is incomplete: Extra data"),
        (document(content())[:-1], "it is not JSON, or is incomplete: Expecting"),
        ('{"format": "micrograd", "format": "micrograd", "version": 1, "content": {}}', "twice"),
        (document(content()).replace('"b": 0.5', '"b": 0.5, "b": 0.6'), "twice"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        (document(None), "model is None: expected a Neuron, Layer, MLP or Embedding"),
        (document([content()]), "model is .*expected a Neuron"),
        (document(content(type="os.system")), "expected a Neuron, Layer, MLP or Embedding"),
        (document(content(type=["MLP"])), "expected a Neuron, Layer, MLP or Embedding"),
        (document(content(nin=10**9)), "the Neuron model has .*'nin'"),
        (document({"type": "MLP", "nin": 10**9, "nouts": [10**9]}), "the MLP model has"),
        (document({"type": "MLP", "layers": []}), "model.layers is .*at least one"),
        (document({"type": "MLP", "layers": {"0": layer(content())}}), "model.layers is"),
        (document({"type": "MLP", "layers": [content()]}), "model.layers.0 is .*expected a Layer"),
        (document({"type": "MLP", "layers": [layer(content()), layer(content())]}), "cannot follow Layer"),
        (document(layer(content(), content(w=[1.0]))), "have different numbers of weights"),
        (document(layer(layer(content()))), "neurons.0 is .*expected a Neuron"),
        (document(content(activation="__import__")), "unknown activation '__import__'"),
        (document(content(activation=["tanh"])), r"activation is \['tanh'\]: expected a name"),
        (document(content(activation=None)), "activation is None"),
        (document(content(w=[])), "model.w is .*at least one"),
        (document(content(w="12")), "model.w is '12'"),
        (document(content(w=[1.0, "2"])), "parameter model.w.1 is '2': expected a finite float"),
        (document(content(w=[1.0, [2.0]])), r"parameter model.w.1 is \[2.0\]"),
        (document(content(b=None)), "parameter model.b is None"),
        (document(content(b=True)), "parameter model.b is True"),
        (document(content(b=float("nan"))), "parameter model.b is nan: expected a finite float"),
        (document(content(b=float("-inf"))), "parameter model.b is -inf: expected a finite float"),
        (document(content()).replace("0.5", "1e999"), "parameter model.. is inf"),
        (document(content()).replace("0.5", "9" * 100_000), "parameter model.. is inf"),
        (document(content(w=[1.0, "x" * 100_000])), "parameter model.w.1 is 'xxx"),
        (document({"type": "Embedding", "w": []}), "model.w is .*at least one"),
        (document({"type": "Embedding", "w": [1.0]}), r"model.w.0 is 1\.0: expected a list with at least one"),
        (document({"type": "Embedding", "w": [[1.0], []]}), "model.w.1 is .*at least one"),
        (document({"type": "Embedding", "w": [[1.0], [None]]}), "parameter model.w.1.0 is None: expected a finite"),
        (document({"type": "Embedding", "w": [[1.0], [1.0, 2.0]]}), "the rows of model have different numbers"),
        (document({"type": "Embedding", "w": [[1.0]], "n": 10**9}), "the Embedding model has .*'n'"),
        ("\ufeff" + document(content()), "BOM"),
    ],
)
def test_a_damaged_foreign_or_hostile_file_is_refused_by_name(path, text, message):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        nn.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_file_that_is_no_text_is_refused_by_name(path):
    for foreign in (b"\xff\xfe{}", b"\x80\x04\x95", document(content()).encode("utf-16")):
        path.write_bytes(foreign)
        with pytest.raises(ValueError, match=f"{path.name} does not hold a model"):
            nn.load(path)


def nested(depth):
    return document(content(b="HERE")).replace('"HERE"', "[" * depth + "]" * depth)


@pytest.mark.parametrize(
    ("depth", "message"),
    [(98, "parameter"), (99, "nested too deeply"), (sys.getrecursionlimit(), "too deeply"), (1_000_000, "too deeply")],
)
def test_a_nested_list_is_refused_however_deep_it_is(path, depth, message):
    path.write_text(nested(depth))
    with pytest.raises(ValueError, match=message):
        nn.load(path)


@pytest.mark.parametrize("inside", ["[" * 1000, '\\"' + "[" * 1000, "]" * 1000 + "\\\\"])
def test_brackets_in_a_string_nest_nothing(path, inside):
    path.write_text(document(content()).replace('"tanh"', f'"{inside}"'))
    with pytest.raises(ValueError, match="activation"):
        nn.load(path)
    path.write_text(nested(200).replace('"tanh"', f'"{inside}"'))
    with pytest.raises(ValueError, match="nested too deeply"):
        nn.load(path)


@pytest.mark.parametrize("text", ['"\\' * 300_000, '"' * 300_001, '"\\\n' * 300_000])
def test_strings_without_an_end_are_read_once(path, text):
    path.write_text(text)
    with pytest.raises(ValueError, match="not JSON"):
        nn.load(path)


def test_a_whole_number_in_a_file_is_read_as_a_float(path):
    path.write_text(document(content(b=3)))
    assert type(nn.load(path).b.data) is float


def test_a_missing_file_is_an_oserror(path):
    with pytest.raises(FileNotFoundError):
        nn.load(path)


def test_a_forged_size_takes_no_memory(path):
    path.write_text(document(content(nin=10**9, w=[1.0], nout=10**9)))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            nn.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def overwrite(path, content):
    """Give a file that exists other content, without the wait of some file systems when it is emptied first."""
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()


def test_any_damage_to_a_file_is_a_value_error_or_gives_another_model(path):
    nn.save(nn.MLP(2, [2, 1], rng=1), path)
    whole = path.read_bytes().rstrip()
    survived, named = 0, set()
    for i in range(len(whole)):
        overwrite(path, whole[:i])
        with pytest.raises(ValueError):
            nn.load(path)
        for flip in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            overwrite(path, whole[:i] + bytes([whole[i] ^ flip]) + whole[i + 1 :])
            try:
                model = nn.load(path)
            except ValueError as error:
                named.add(str(path) in str(error))
            else:
                survived += 1
                assert all(abs(number) <= sys.float_info.max for number in model.state_dict().values())
    assert survived > 0  # a digit for another digit
    assert named == {True}


def test_documents_of_anything_json_has_come_back(path):
    """Floats for all numbers, which the models rely on."""
    files.write({"a": [1, None, "é", -0.0]}, path)
    assert repr(files.read(path)) == "{'a': [1.0, None, 'é', -0.0]}"


@pytest.mark.parametrize("held", [0, 2, 100])
def test_on_windows_a_file_is_replaced_once_no_other_program_holds_it_open(tmp_path, monkeypatch, held):
    source, target = str(tmp_path / "new"), str(tmp_path / "old")
    tries, waited, true = [], [], os.replace

    def replace(*paths):
        tries.append(paths)
        if len(tries) <= held:
            raise PermissionError(errno.EACCES, "Permission denied")
        true(*paths)

    for path in source, target:
        with open(path, "w") as file:
            file.write(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        patch.setattr(files.time, "sleep", waited.append)
        if held == 100:
            with pytest.raises(PermissionError):
                files.move(source, target)  # where it would be in vain
            assert [len(tries), waited] == [1, []]
            tries.clear()
        patch.setattr(os, "name", "nt")
        if held == 100:
            with pytest.raises(PermissionError):
                files.move(source, target)
        else:
            files.move(source, target)
    assert waited == list(files.WAITS)[:held]
    with open(target) as file:
        assert file.read() == (target if held == 100 else source)


class Mine(nn.Module):
    def __init__(self, number=0.5):
        self.w = [Value(number), Value(2.0)]


@pytest.mark.parametrize(("number", "name"), [(0.5, "json"), (Fraction(1, 3), "pickle")])
def test_the_remedy_for_a_module_of_ones_own_can_be_carried_out_word_for_word(path, number, name):
    model = Mine(number)
    with pytest.raises(ValueError, match=r"^nn.save cannot write this Mine: it knows Neuron, Layer") as error:
        nn.save(model, path)
    write, read = re.fullmatch(r".*; write (.*), and read it back with (.*)", str(error.value)).groups()
    module = {"json": json, "pickle": pickle}[name]
    mode = "b" if name == "pickle" else ""
    with open(path, f"w{mode}") as file:
        exec(write, {name: module, "model": model, "file": file})
    again = Mine(0.0)
    with open(path, f"r{mode}") as file:
        exec(read, {name: module, "model": again, "file": file})
    assert again.state_dict() == model.state_dict()


def test_a_path_before_the_model_is_refused_with_the_right_order(path):
    with pytest.raises(TypeError, match=r"^the path comes second: write nn\.save\(model, 'm\.json'\)$"):
        nn.save("m.json", nn.Neuron(2))


def test_a_model_that_was_trained_by_compiled_code_is_saved(path):
    model = nn.MLP(1, [2, 1], rng=1)
    fit(model, losses.mse_loss, [[0.5], [1.0]], [1.0, 2.0], epochs=2, backend="python", progress=False)
    nn.save(model, path)
    assert bits(nn.load(path)) == bits(model)
