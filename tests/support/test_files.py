"""A file is the old one or the whole new one, whatever happens on the way."""

import errno
import os
import re
import stat

import pytest

import micrograd
from micrograd import Value, nn, viz
from micrograd.support import files

SQUARE = micrograd.compile(lambda x: x * x, (1.0,), backend="python")

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, links and pipes as POSIX has them")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


WRITERS = {
    "model.json": lambda path: nn.save(nn.MLP(2, [8, 1], rng=2), path),
    "drawing.svg": lambda path: viz.save_svg(Value(1.0), path),
    "page.html": lambda path: viz.save_html(Value(1.0), path),
    "model.c": SQUARE.export_c,
    "model.js": SQUARE.export_js,
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_saved_or_exported_replaces_a_file_whole_or_not_at_all(path, monkeypatch, name):
    (path.parent / name).write_bytes(b"old")
    monkeypatch.setattr("micrograd.support.files.os.replace", lambda *paths: os.stat("missing"))
    with pytest.raises(FileNotFoundError, match=re.escape(name)):
        WRITERS[name](path.parent / name)
    assert (path.parent / name).read_bytes() == b"old"
    assert sorted(os.listdir(path.parent)) == sorted(["file", name])


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("function", ["Path.write_bytes", "os.replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(path, monkeypatch, function, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(f"micrograd.support.files.{function}", fail)
    with pytest.raises(type(error)) as caught:
        files.replace(path, b"new")
    assert getattr(caught.value, "filename", str(path)) == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_a_path_that_cannot_be_written_to_is_an_oserror_that_names_it(path):
    for target, kind in ((path.parent / "missing" / "file", FileNotFoundError), (path.parent, OSError)):
        with pytest.raises(kind) as caught:
            files.replace(target, b"new")
        assert (caught.value.filename, str(caught.value).count("'")) == (str(target), 2)


@posix
def test_permissions_and_links_are_kept(path):
    path.chmod(0o640)
    link = path.parent / "link"
    link.symlink_to(path)
    files.replace(str(link), b"new")
    assert link.is_symlink()
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)
    files.replace(path.parent / "fresh", b"new")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((path.parent / "fresh").stat().st_mode) == 0o666 & ~mask
    assert sorted(os.listdir(path.parent)) == ["file", "fresh", "link"]


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="files that are open have names")
def test_a_pipe_that_is_open_is_written_to_by_its_name():
    """As standard output is, whose name leads to nothing that one could put a file beside."""
    reader, writer = os.pipe()
    try:
        files.replace(f"/dev/fd/{writer}", b"new")
        assert os.read(reader, 100) == b"new"
    finally:
        os.close(reader)
        os.close(writer)
