"""Files that are written whole or not at all."""

import os
import secrets
import shutil
from contextlib import suppress


def replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, or replace the one that exists.

    The content goes to a temporary file beside it that then takes its place, so `path` always holds either all of the
    old content or all of the new. A device or a pipe is written to in place.

    Raises OSError, naming the path as it was given, if the file cannot be written.
    """
    try:
        if os.path.isfile(path) or not os.path.exists(path):
            _replace_file(os.path.realpath(path), content)  # through a link, the file that it names
        else:
            with open(path, "wb") as file:
                file.write(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _replace_file(path: str, content: bytes) -> None:
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        raise
