"""Files that are written whole or not at all; and JSON documents, read with suspicion. `nn` says what is in them."""

import json
import os
import secrets
import shutil
from contextlib import suppress
from typing import Any, NoReturn

__all__ = ["read", "replace", "write"]

FORMAT = "micrograd"
VERSION = 1


def write(content: Any, path: str | os.PathLike[str]) -> None:
    """`replace` a file by the content, as a document with the format's name and version."""
    text = json.dumps({"format": FORMAT, "version": VERSION, "content": content}, allow_nan=False)
    replace(path, f"{text}\n".encode())


def replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, in place of the one that may be there.

    The content goes to a temporary file beside `path`, which is then moved into place: whatever happens on the way,
    `path` holds the whole old content or the whole new one. A process that is killed may leave the temporary file.
    What is there and is no file, such as a device or a pipe, stays in its place and gets the content.

    Raises
    ------
    OSError
        If the file cannot be written. It names the path as it was given.
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
    temporary = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def read(path: str | os.PathLike[str]) -> Any:
    """The content of a document. Every number in it is a float; it may be infinite.

    Raises
    ------
    ValueError
        If the document is damaged, is something else, or is of another version.
    OSError
        If the file cannot be opened.
    """
    with open(path, encoding="utf-8") as file:
        try:
            # An integer of a million digits takes long to read as an int, and no time as a float.
            document = json.load(file, object_pairs_hook=_object, parse_int=float, parse_constant=_no_constant)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"it is not JSON, or not all of it: {error}") from None
    match document:
        case {"format": "micrograd", "version": version, "content": content} if len(document) == 3:
            if version is True or version != VERSION:
                raise ValueError(f"it is of version {version!r:.20}, and this micrograd reads version {VERSION}")
            return content
        case _:
            raise ValueError("it is JSON, but not written by micrograd")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("it names a member of an object twice")
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")
