"""Files that are written whole or not at all."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, or replace the one that exists.

    The content goes to a temporary file beside it that then takes its place, so `path` always holds either all of the
    old content or all of the new. A device or a pipe is written to in place.

    Raises OSError, naming the path as it was given, if the file cannot be written.
    """
    named = os.path.realpath(os.fsdecode(path))  # for a link, the file that it points to
    temporary = Path(f"{named}.{os.urandom(4).hex()}.tmp")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            Path(path).write_bytes(content)
            return
        temporary.write_bytes(content)
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, named)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        with suppress(OSError):  # it is there only after an error
            temporary.unlink()
