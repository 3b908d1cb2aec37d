"""Files of the lab's own: experiments that are written for a person to read, and to try."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from knowngood.errors import UsageError


def write_new_files(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write new files durably, in the order given.

    Args:
        folder: Where to; made if it is not there.
        files: Place below the folder to bytes.

    Raises:
        UsageError: One stands there already, or cannot be written.
    """
    written: list[Path] = []
    try:
        for place, content in files.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            written.append(path)
        sync_folders(written)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}", hint="make room") from error
    return tuple(written)


def sync_folders(paths: Sequence[Path]) -> None:
    """Make the names of new files durable."""
    for folder in {path.parent for path in paths} | {path.parent.parent for path in paths}:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
