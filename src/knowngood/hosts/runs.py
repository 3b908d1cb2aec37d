"""Records of launches in the state directory: after the controller is gone they tell what it had started."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from knowngood.hosts import proc
from knowngood.hosts.family import Name

VERSION = 1
SUFFIX = ".json"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a server, written down before it happens.

    Attributes:
        run: Name given by the caller.
        token: Marker in the environment of its processes.
        argv: Program and arguments.
        boot: Boot of the machine.
        controller: Process id and start time of whoever looks after it.
        leader: Process id and start time of its first process; None until that is known.
        v: Version of the format.
    """

    run: str
    token: str
    argv: tuple[str, ...]
    boot: str
    controller: Name
    leader: Name | None = None
    v: int = VERSION


class Runs:
    """The launches of a state directory.

    Args:
        folder: Where the records lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, run: str, argv: tuple[str, ...]) -> Launch:
        """Record a launch that is about to happen."""
        me = proc.stat(os.getpid())
        launch = Launch(
            run=run,
            token=secrets.token_hex(16),
            argv=argv,
            boot=proc.boot_id(),
            controller=(os.getpid(), me.start if me else 0),
        )
        self.write(launch)
        return launch

    def write(self, launch: Launch) -> None:
        """Put a record in place, durably."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = self._path(launch)
        fresh = target.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(launch))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def forget(self, launch: Launch) -> None:
        """Remove the record of a launch that has ended."""
        self._path(launch).unlink(missing_ok=True)

    def all(self) -> Iterator[Launch]:
        """All records that can be read, in the order of their names."""
        for path in sorted(self._folder.glob("*" + SUFFIX)):
            try:
                yield msgspec.json.decode(path.read_bytes(), type=Launch)
            except (FileNotFoundError, msgspec.DecodeError):
                continue

    def _path(self, launch: Launch) -> Path:
        return self._folder / (launch.token + SUFFIX)


def has_other_controller(launch: Launch) -> bool:
    """Tell whether a living process other than this one looks after a launch."""
    pid, start = launch.controller
    found = proc.stat(pid)
    return pid != os.getpid() and found is not None and found.start == start and found.lives
