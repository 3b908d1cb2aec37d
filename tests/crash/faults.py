"""A disk that kills its user, fails, fills up or lets somebody else edit, exactly at the n-th change."""

import errno
import os
import signal
from collections.abc import Callable
from typing import Any

ALLOCATING = ("create", "write", "mkdir", "link", "set_xattr")
READING = ("read", "names", "status", "xattrs", "open_directory", "immutable", "space", "mounts", "writable")


class Killed(BaseException):
    """The process is gone: no further call of it reaches the disk."""


Fault = Callable[["Plug", str, Callable[..., Any], tuple[Any, ...]], Any]


class Plug:
    """Sits between the agent and its disk, counts changes, and lets a fault act on the n-th.

    Args:
        agent: The agent's module.
        at: Number of the change, from 1; 0 to count only.
        fault: What happens there; it gets the call and decides whether to make it.
        exchange: Whether the file system knows ``renameat2``.
    """

    def __init__(self, agent: Any, at: int = 0, fault: Fault | None = None, *, exchange: bool = True) -> None:
        self.disk = agent.Disk()
        self.disk.threads = 1
        self.at = at
        self.count = 0
        self.dead = False
        self.full = False
        self.calls: list[str] = []
        self.hit = ""
        for name in self.disk.CHANGES:
            setattr(self.disk, name, self._changing(name, getattr(self.disk, name), fault))
        for name in READING:
            setattr(self.disk, name, self._reading(getattr(self.disk, name)))
        if not exchange:
            self.disk.rename_flags = unsupported

    def _changing(self, name: str, call: Callable[..., Any], fault: Fault | None) -> Callable[..., Any]:
        def change(*args: Any) -> Any:
            if self.dead:
                raise Killed
            self.count += 1
            self.calls.append(name)
            if self.full and name in ALLOCATING:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "full")
            if self.count == self.at and fault is not None:
                self.hit = name
                return fault(self, name, call, args)
            return call(*args)

        return change

    def _reading(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any) -> Any:
            if self.dead:
                raise Killed
            return call(*args)

        return look


def unsupported(*_: object) -> None:
    """``renameat2`` on a file system that has no flags."""
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def kill(plug: Plug, _name: str, _call: Callable[..., Any], _args: tuple[Any, ...]) -> Any:
    """Die before the call."""
    plug.dead = True
    raise Killed


def kill_torn(plug: Plug, name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Die in the middle of a write; in any other call, before it."""
    if name == "write":
        fd, data = args
        call(fd, data[: len(data) // 2])
    return kill(plug, name, call, args)


def kill_really(_plug: Plug, _name: str, _call: Callable[..., Any], _args: tuple[Any, ...]) -> Any:
    """Die as processes do."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail_once(_plug: Plug, _name: str, _call: Callable[..., Any], _args: tuple[Any, ...]) -> Any:
    """One input/output error."""
    raise OSError(errno.EIO, os.strerror(errno.EIO), "broken")


def fill_up(plug: Plug, name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """From here on the disk is full."""
    plug.full = True
    if name in ALLOCATING:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "full")
    return call(*args)


def meanwhile(act: Callable[[], None]) -> Fault:
    """Somebody else acts just before the call."""

    def fault(_plug: Plug, _name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        act()
        return call(*args)

    return fault
