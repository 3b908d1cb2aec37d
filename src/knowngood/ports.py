"""The doors between the procedures of ``flow`` and the world: five small protocols.

A plugin is one factory behind an entry point; it passes the conformance suite of its port in ``knowngood.testing``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from knowngood.model.change import Change, Setting
from knowngood.model.diagnosis import LogRule
from knowngood.model.events import Event
from knowngood.model.evidence import CpuReading, Proof, RunRecord, Surroundings
from knowngood.model.files import FileEdit
from knowngood.model.launch import LaunchSpec
from knowngood.model.process import LiveProcess, Witness
from knowngood.model.workload import Workload


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """A program that ran to its end: exit status, both outputs."""

    status: int
    out: bytes
    err: bytes


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """State of a journalled set of file edits.

    Attributes:
        id: Given by whoever applied it.
        state: ``applied`` is on the host for a trial, ``kept`` is part of the known-good state, ``reverted`` is undone,
            ``unfinished`` was cut off or met drift.
        files: Path to SHA-256 of what stands there now (None: no file).
        notes: What a person must know: drift that was left alone, foreign edits that were put back.
    """

    id: str
    state: Literal["applied", "kept", "reverted", "unfinished"]
    files: dict[str, str | None]
    notes: tuple[str, ...] = ()


class Journal(Protocol):
    """Exact undo: pre-images first, compare-and-swap per file, all or nothing. Lives on the host."""

    def apply(self, tx: str, edits: Sequence[FileEdit]) -> Transaction:
        """Put a set of edits on the host; asked again with the same id, answer with its state.

        Raises:
            Drift: A file is not what the plan was made for; everything is as before.
            Refused: The host cannot take the set (space, permissions, mounts); everything is as before.
        """
        ...

    def revert(self, tx: str) -> Transaction:
        """Bring every file of a transaction, applied or kept, back to what it was.

        Raises:
            RevertFailed: A file was edited by somebody else since; it was left alone.
        """
        ...

    def keep(self, tx: str) -> Transaction:
        """Make an applied transaction part of the known-good state; its pre-images stay for a later revert."""
        ...

    def forget(self, tx: str) -> Transaction:
        """Let go of a kept transaction: what stands there stays, and no undo of it is left."""
        ...

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Transaction]:
        """Undo whatever is neither kept nor reverted, newest first; those named in ``keep`` become kept instead."""
        ...

    def transactions(self) -> Sequence[Transaction]:
        """All transactions that are not reverted, oldest first."""
        ...


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """State of a journalled set of settings.

    Attributes:
        id: Given by whoever applied it.
        state: As in ``Transaction``; ``lapsed`` was kept, and a reboot has undone it.
        values: Setting to what it reads now; empty text if it cannot be read.
        notes: What a person must know.
    """

    id: str
    state: Literal["applied", "kept", "lapsed", "reverted", "unfinished"]
    values: dict[str, str]
    notes: tuple[str, ...] = ()


class Settings(Protocol):
    """Undo of values that the kernel or a device holds: journalled on the host, compared before they are put back."""

    def read(self, settings: Sequence[Setting]) -> Mapping[str, str]:
        """Read what settings are now: name to value.

        Raises:
            Refused: One cannot be read, or could not be written.
        """
        ...

    def apply(self, tx: str, settings: Sequence[Setting]) -> Tuning:
        """Set a set of values, all or none; asked again with the same id, answer with its state.

        Raises:
            Refused: One cannot be written, put back or read back; everything is as before.
            RevertFailed: That failed, and not everything could be put back.
        """
        ...

    def revert(self, tx: str) -> Tuning:
        """Put the values of a set, applied or kept, back where they still read what was set.

        Raises:
            RevertFailed: Somebody else has set one since; it was left alone.
        """
        ...

    def keep(self, tx: str) -> Tuning:
        """Make an applied set part of the known-good state."""
        ...

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Tuning]:
        """Undo what is neither kept nor reverted, newest first; set again what was kept and undone by a reboot."""
        ...

    def transactions(self) -> Sequence[Tuning]:
        """All sets that are not reverted, oldest first."""
        ...


class Process(Protocol):
    """A server that was started: its process group, its log."""

    @property
    def pid(self) -> int:
        """Process id of the group's leader on the host."""
        ...

    def poll(self) -> int | None:
        """Exit status of the leader (negative: signal), or None while it lives."""
        ...

    def stop(self, *, grace_s: float) -> None:
        """End every process that descends from the launch: ask, wait up to ``grace_s``, kill; return when all are gone.

        Raises:
            RevertFailed: A process could not be ended.
        """
        ...

    def cpu(self) -> CpuReading:
        """Read the machine's counters, and the group's CPU time and memory; cheap."""
        ...

    def surroundings(self) -> Surroundings:
        """Look at what goes on around it; too dear for a measured window."""
        ...

    def inspect(self) -> "Inside":
        """Look into the live processes."""
        ...


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """What the operating system says of a running server.

    Attributes:
        argv: Arguments of the leader.
        environ: Its environment.
        pids: Live processes of the launch.
        ports: TCP ports that these processes listen on.
        rss_mb: Their resident memory, in MB.
        packages: Digest over the Python packages that lie where they have loaded some from; empty for none.
        processes: The live processes one by one.
    """

    argv: tuple[str, ...]
    environ: dict[str, str]
    pids: tuple[int, ...]
    ports: tuple[int, ...]
    rss_mb: float
    packages: str = ""
    processes: tuple[LiveProcess, ...] = ()


def never() -> int:
    """How often a route that cannot break has broken."""
    return 0


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """How a server on a host is reached from here.

    Attributes:
        url: Root URL, without a final slash.
        breaks: How often the way was interrupted so far; what was measured across an interruption is worth nothing.
    """

    url: str
    breaks: Callable[[], int] = never


class Host(Protocol):
    """A machine that servers run on."""

    @property
    def address(self) -> str:
        """``local`` or ``ssh://name``."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether CPU time used by this process is used on that machine."""
        ...

    @property
    def journal(self) -> Journal:
        """The machine's journal of file edits."""
        ...

    @property
    def settings(self) -> Settings:
        """The machine's journal of settings."""
        ...

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Completed:
        """Run a program to its end.

        Raises:
            Unreachable: There is no such program, or it did not end in time.
        """
        ...

    def spawn(self, spec: LaunchSpec, *, run: str, log: Path) -> Process:
        """Start a server in a process group of its own, its output in ``log``; ``run`` names it for ``strays``.

        Raises:
            Died: The program cannot be started.
        """
        ...

    def strays(self) -> Sequence[Process]:
        """Servers of ours that still run although nobody looks after them."""
        ...

    def surroundings(self) -> Surroundings:
        """Look at what goes on on the machine, whatever runs there."""
        ...

    def counts(self) -> Mapping[str, float]:
        """Read the machine's counters, by the names of ``CpuReading.counts``."""
        ...

    def look(self, path: str) -> bytes | None:
        """Bytes of a file; None if no file stands there.

        Raises:
            HostError: It cannot be read, or is no regular file.
        """
        ...

    def lease(self, *, purpose: str) -> AbstractContextManager[None]:
        """Hold the machine; one holder at a time, across users and labs.

        When the holder vanishes, or is silent for too long, the machine ends the servers that were started under the
        lease and takes back the edits that were applied and not kept, by itself.

        Raises:
            Busy: Somebody holds it; who, for what and since when are in the message.
        """
        ...

    def holder(self) -> str:
        """Who holds the machine now, for what and since when; empty if nobody does."""
        ...

    def lead(self, words: Sequence[str]) -> Sequence[str]:
        """Command that, run here, runs a program there, with its input and output connected."""
        ...

    def reach(self, spec: LaunchSpec) -> AbstractContextManager[Route]:
        """Have a way from here to a server's port for the length of a block.

        Raises:
            Unreachable: There is none.
        """
        ...


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """How to tell that a server is ready.

    Attributes:
        health: Path that answers 200 when the server is ready.
        first_answer: Path of a completion endpoint that must answer one short request; empty if there is none.
        quiet_s: A server that neither writes to its log nor uses CPU for so long is called silent.
        stages: Regular expressions of the log's lines that tell how far a start has come.
        hopeless: Regular expression of a line after which the server never becomes ready, although its first process
            may live on; empty if there is none.
    """

    health: str
    first_answer: str = ""
    quiet_s: float = 60.0
    stages: tuple[str, ...] = ()
    hopeless: str = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What a running server showed: input of the effect proofs.

    Attributes:
        inside: What the operating system says.
        pages: Endpoint path to body, fetched after load; endpoints that did not answer 200 are left out.
        log: The server's log so far.
        files: Path to SHA-256 of managed files at launch time.
        settings: Setting to what it reads while the server runs.
        overlay: Directory that the pins were built into; empty without pins.
        pins: Package to the version that the interpreter finds in the overlay, along the server's own path.
        tops: Package to the names of the modules and directories that it brings.
        witness: What the processes said of the code they have loaded; None if they were not asked.
    """

    inside: Inside
    pages: dict[str, str]
    log: str
    files: dict[str, str] = {}
    settings: dict[str, str] = {}
    overlay: str = ""
    pins: dict[str, str] = {}
    tops: dict[str, tuple[str, ...]] = {}
    witness: Witness | None = None


class Engine(Protocol):
    """What is special about one kind of server: nearly pure, no processes of its own."""

    @property
    def name(self) -> str:
        """Name in ``[server] engine``."""
        ...

    @property
    def aliases(self) -> Mapping[str, str]:
        """Spelling of a flag to its canonical spelling; flags that have only one are left out."""
        ...

    @property
    def rules(self) -> Sequence[LogRule]:
        """What this engine's log says when it fails, or when a feature is silently off."""
        ...

    @property
    def readiness(self) -> Readiness | None:
        """How to tell that it is ready; None for a program that runs to its end."""
        ...

    @property
    def pages(self) -> Sequence[str]:
        """Endpoints worth keeping as evidence, such as ``/metrics``."""
        ...

    def resolve(self, spec: LaunchSpec, *, which: Callable[[str], str | None]) -> LaunchSpec:
        """What is really executed: the program found, the flags that the evidence needs added.

        Raises:
            UsageError: The program is not there; the hint says how to get it.
        """
        ...

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Whether a member of the change set is in force."""
        ...

    def version(self, pages: Mapping[str, str], log: str) -> str:
        """Version that the running server says it is; empty if it says none."""
        ...

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """Mean tokens that one step of speculation yields, the one that is always right included; None without.

        "Acceptance rate" means something else in every engine, and in SGLang changed its meaning between versions; this
        is the one figure that can be compared.
        """
        ...


class Load(Protocol):
    """A benchmark client. It runs in its own process."""

    def require(self, workloads: Sequence[Workload]) -> None:
        """Refuse what it cannot do, before anything starts.

        Raises:
            UsageError: Its program is not here, or a workload asks for what it cannot be told.
        """
        ...

    def measure(
        self,
        target: "Target",
        workload: Workload,
        *,
        out: Path,
        progress: Callable[[float], None],
        mark: Callable[[], None],
        number: int = 0,
    ) -> RunRecord:
        """Run one pass.

        Args:
            target: The server.
            workload: What to ask of it.
            out: File for the raw samples, written as they come.
            progress: Called with the share done, from 0 to 1.
            number: Of the pass in its launch, from 0: a later one goes on in the prompts, because the server's caches
                have seen those of the first.
            mark: Called twice, as the measured window opens and as it closes, so that the caller can read CPU counters.

        Raises:
            LoadError: The client could not do its work. (Requests that fail are counted, not raised.)
        """
        ...


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A running server as a benchmark client sees it.

    Attributes:
        url: Its root URL, as it is reached from here.
        alive: Whether it lives.
        log: Its log, here.
        there: Its root URL for a client that runs on its host.
    """

    url: str
    alive: Callable[[], bool]
    log: Path
    there: str = ""


class Store(Protocol):
    """Append-only events."""

    def append(self, event: Event, *, after: int) -> int:
        """Append as version ``after + 1`` and return it.

        Raises:
            Conflict: That version stands already.
        """
        ...

    def events(self, *, since: int = 0) -> Iterator[tuple[int, Event]]:
        """All events with a version above ``since``, in order."""
        ...


class Artifacts(Protocol):
    """Raw samples and logs, by digest."""

    def put(self, content: Path | bytes) -> str:
        """Take bytes, or a file's bytes, in and return their SHA-256."""
        ...

    def path(self, digest: str) -> Path:
        """Where the bytes lie.

        Raises:
            NotFound: There is no such artifact.
        """
        ...
