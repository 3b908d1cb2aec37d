"""Records of launches in the state directory: after the controller is gone they tell what it had started."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from .proc import boot_id, is_alive, own_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .family import Name

LAUNCH_VERSION = 1
SUFFIX = ".json"
NOBODY_NAME = (0, 0)


class Launch(NamedTuple):
    """One start of a server, written down before it happens.

    Attributes:
        run: Name given by the caller.
        token: Marker in the environment of its processes.
        argv: Program and arguments.
        boot: Boot of the machine.
        controller: Process id and start time of whoever looks after it.
        leader: Process id and start time of its first process; None until that is known.
        lease: Token of the lease that it was started under; 0 for none.
        log: File on this host with its output.
        status: Exit status, if whoever started it saw the end (negative: signal).
        v: Version of the format.
    """

    run: str
    token: str
    argv: list[str]
    boot: str
    controller: Name
    leader: Name | None = None
    lease: int = 0
    log: str = ""
    status: int | None = None
    v: int = LAUNCH_VERSION


class Runs:
    """The launches of a state directory.

    Args:
        folder: Where the records lie.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def begin(self, run: str, argv: Sequence[str], lease: int, log: str) -> Launch:
        """Record a launch that is about to happen."""
        launch = Launch(run, secrets.token_hex(16), list(argv), boot_id(), own_name(), None, lease, log)
        self.write(launch)
        return launch

    def write(self, launch: Launch) -> None:
        """Put a record in place, durably."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        target = self._path(launch.token)
        with open(target + ".new", "wb") as file:
            file.write(json.dumps(launch._asdict()).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(target + ".new", target)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def forget(self, launch: Launch) -> None:
        """Remove the record of a launch that has ended."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(launch.token))

    def find(self, token: str) -> Launch | None:
        """The launch of a token; None if there is no record that can be read."""
        try:
            with open(self._path(token), "rb") as file:
                return launch_of(json.loads(file.read()))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def all(self) -> Iterator[Launch]:
        """All records that can be read, in the order of their names."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return
        for name in names:
            found = self.find(name[: -len(SUFFIX)]) if name.endswith(SUFFIX) else None
            if found is not None:
                yield found

    def _path(self, token: str) -> str:
        return os.path.join(self._folder, os.path.basename(token) + SUFFIX)


def launch_of(raw: dict[str, Any]) -> Launch:
    """A launch out of its JSON; fields of a later version are left out."""
    fields = {name: raw[name] for name in Launch._fields if name in raw}
    leader = fields.get("leader")
    fields["leader"] = (leader[0], leader[1]) if leader else None
    fields["controller"] = (raw["controller"][0], raw["controller"][1])
    return Launch(**fields)


def has_other_controller(launch: Launch) -> bool:
    """Tell whether a living process other than this one looks after a launch."""
    pid, start = launch.controller
    return pid != os.getpid() and is_alive(pid, start)
