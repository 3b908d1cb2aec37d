"""Says what the Python processes of a launch have loaded. Python runs it as their ``sitecustomize``; 3.8 or newer.

It lies in a directory of its own at the end of a launch's ``PYTHONPATH``, beside ``watched``: one path a line, of a
source file or, with a slash at its end, of a directory. Each process appends to ``records/PID`` one line as it starts
and one line as it loads something watched, with the digest of the source and whether the code is what that source
compiles to. Nothing else of the process is touched, and whatever fails in here is let go of.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

HERE = os.path.dirname(os.path.abspath(__file__))
ORIGINAL = SourceFileLoader.get_code


class Watch:
    """What is watched.

    Attributes:
        files: Source file, links resolved, to the path that it is watched as.
        names: Their names, for a quick look.
        folders: The same of directories; of each package in them the first module is told.
        told: Process and package that were told already.
    """

    def __init__(self, paths: list[str]) -> None:
        self.files = {os.path.realpath(path): path for path in paths if not path.endswith("/")}
        self.names = {os.path.basename(path) for path in self.files}
        self.folders = {os.path.realpath(path) + "/": path for path in paths if path.endswith("/")}
        self.told: set[tuple[int, str]] = set()

    def look(self, loader: SourceFileLoader, code: CodeType | None) -> None:
        """Tell of a module that is being loaded, if it is watched."""
        path = str(loader.path)
        if os.path.basename(path) not in self.names and not self.folders:
            return
        real = os.path.realpath(path)
        if real in self.files:
            with open(path, "rb") as file:
                source = file.read()
            # Compiled once more by the same loader: stale bytecode is another code.
            tell(self.files[real], source, same=code == loader.source_to_code(source, path))
        for folder, name in self.folders.items():
            top = real[len(folder) :].partition("/")[0]
            if real.startswith(folder) and (os.getpid(), top) not in self.told:
                self.told.add((os.getpid(), top))
                tell(name + real[len(folder) :], b"", same=True)


def tell(path: str, source: bytes, *, same: bool) -> None:
    """Write down that this process has loaded a file."""
    import hashlib  # noqa: PLC0415 - most processes load nothing that is watched
    import json  # noqa: PLC0415

    record: dict[str, Any] = {"path": path, "sha256": hashlib.sha256(source).hexdigest(), "same": same}
    write(json.dumps({"pid": os.getpid(), "at": now(), **record}))


def now() -> float:
    """Seconds since boot, on the clock that the kernel stamps processes with."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(record: str) -> None:
    """Append a line to this process's records."""
    handle = os.open(os.path.join(HERE, "records", str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, f"{record}\n".encode())
    finally:
        os.close(handle)


def begin() -> None:
    """Say that this process is there, and watch what it loads."""
    with open(os.path.join(HERE, "watched"), encoding="utf-8") as file:
        watch = Watch(file.read().splitlines())
    write(f'{{"pid": {os.getpid()}, "at": {now()}}}')

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        code = ORIGINAL(self, fullname)
        with suppress(Exception):
            watch.look(self, code)
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def go_on() -> None:
    """Run the ``sitecustomize`` that would have run without this one."""
    if HERE in sys.path:
        sys.path.remove(HERE)
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    with suppress(Exception):
        begin()
    go_on()
