"""Files that are written completely or not at all, and JSON documents from untrusted sources."""

import errno
import json
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from itertools import accumulate
from typing import Any

from micrograd.core.errors import shown

FORMAT = "micrograd"
VERSION = 1
WAITS = (0.01, 0.05, 0.2, 0.5)  # seconds: a virus scanner or an indexer may have a file open
DEPTH = 100
"""The deepest nesting of lists and objects: far deeper than in a model, far less than overflows a stack."""

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{\]}]', re.DOTALL)  # an unclosed string runs to the end


def write(content: Any, path: str | os.PathLike[str]) -> None:
    """`replace` a file by a document with the content."""
    replace(path, f"{json.dumps(document(content), allow_nan=False)}\n".encode())


def document(content: Any) -> dict[str, Any]:
    """The content with the format's name and version."""
    return {"format": FORMAT, "version": VERSION, "content": content}


def replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, or replace the one that exists.

    The content goes to a temporary file beside `path`, which is then moved into place: whatever happens on the way,
    `path` has either all of the old content or all of the new. A process that is killed may leave the temporary file.
    A device or a pipe is written to in place. A write-protected file stays as it is.

    Raises OSError, which names the path as it was given, if the file cannot be written.
    """
    try:
        if os.path.isfile(path) or not os.path.exists(path):
            _replace_file(os.path.realpath(path), content)  # through a link, the file that it names
        else:
            with open(path, "wb") as file:
                file.write(content)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _replace_file(path: str, content: bytes) -> None:
    with suppress(FileNotFoundError):
        if not (os.stat(path).st_mode & 0o222 and os.access(path, os.W_OK)):  # to replace it is up to the directory
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    temporary = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        move(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def move(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Move a file, replacing another one; on Windows, wait until no other program has that open."""
    for wait in WAITS if os.name == "nt" else ():
        with suppress(PermissionError):
            os.replace(source, target)
            return
        time.sleep(wait)
    os.replace(source, target)


def read(path: str | os.PathLike[str]) -> Any:
    """The content of a document. Every number in it becomes a float, which may be infinite.

    Raises ValueError if the document is damaged, of another kind or of another version, OSError if it cannot be opened.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    nesting = ({"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0) for token in _STRING_OR_BRACKET.finditer(text))
    if max(accumulate(nesting), default=0) > DEPTH:  # which in a browser would overflow the stack
        raise ValueError("it is nested too deeply")
    try:
        # parse_int: an integer of a million digits would take long to read as an int
        document = json.loads(text, object_pairs_hook=_object, parse_int=float)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON, or is incomplete: {error}") from None
    is_ours = isinstance(document, dict) and document.keys() == {"format", "version", "content"}
    if not is_ours or document["format"] != FORMAT:
        raise ValueError("it is JSON, but was not written by micrograd")
    if (version := document["version"]) is True or version != VERSION:
        raise ValueError(f"it has version {shown(version, 20)}, but this micrograd reads version {VERSION}")
    return document["content"]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("it has an object with the same key twice")
    return members
