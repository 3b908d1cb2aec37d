"""Processes of a running server, and what they have loaded."""

import msgspec


class LiveProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a running server.

    Attributes:
        pid: Process id.
        parent: Process id of its parent.
        title: Its command line, or what it calls itself (``VLLM::Worker_TP0``).
        environ: Environment that it was started with; empty if it has overwritten that, or may not be read.
        started_s: When it was started, in seconds since boot.
    """

    pid: int
    parent: int = 0
    title: str = ""
    environ: dict[str, str] = {}
    started_s: float = 0.0


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A process has loaded a source file.

    Attributes:
        pid: The process.
        at: When, in seconds since boot.
        path: The file, as it is watched; for a watched directory, a file in it.
        sha256: Of what the file held then.
        same: Whether the code that runs is what these bytes compile to; False for stale bytecode.
    """

    pid: int
    at: float
    path: str
    sha256: str = ""
    same: bool = True


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes of a launch said of the code they have loaded (``flow/on_host/witness.py``).

    Attributes:
        interpreters: Process that runs Python to when it started that, in seconds since boot; those that were forked
            from one are not among them.
        imported: Watched files, as they were loaded.
        mapped: Watched files that live processes have mapped into memory, such as libraries.
    """

    interpreters: dict[int, float] = {}
    imported: tuple[Imported, ...] = ()
    mapped: tuple[str, ...] = ()
