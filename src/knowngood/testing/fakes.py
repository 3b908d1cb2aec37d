"""Public fakes of the ports: for unit tests, for plugin authors, and for faults that cannot be produced for real."""

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from knowngood.errors import Busy, Conflict, Drift, Refused
from knowngood.model.change import Change, Setting, describe
from knowngood.model.diagnosis import LogRule
from knowngood.model.events import Event
from knowngood.model.evidence import CpuReading, Proof, RunRecord, Surroundings
from knowngood.model.files import FileEdit
from knowngood.model.launch import LaunchSpec
from knowngood.model.workload import Workload
from knowngood.ports import Completed, Inside, Observed, Process, Readiness, Route, Target, Transaction, Tuning


class FakeClock:
    """Time that passes only when told to; in seconds."""

    def __init__(self, at: float = 1_000_000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        """Read it."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.at += seconds


class FakeStore:
    """Events in memory."""

    def __init__(self) -> None:
        self.log: list[Event] = []

    def append(self, event: Event, *, after: int) -> int:
        """Append as version ``after + 1``."""
        if after != len(self.log):
            raise Conflict(f"version {after + 1} stands already", hint="read again")
        self.log.append(event)
        return after + 1

    def events(self, *, since: int = 0) -> Iterator[tuple[int, Event]]:
        """All events with a version above ``since``."""
        yield from list(enumerate(self.log, 1))[since:]


class FakeJournal:
    """A journal over a dictionary of files; it can be told to fail."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.before: dict[str, dict[str, bytes | None]] = {}
        self.states: dict[str, Transaction] = {}

    def apply(self, tx: str, edits: Sequence[FileEdit]) -> Transaction:
        """Put edits into the dictionary, all or none."""
        for edit in edits:
            now = self.files.get(edit.path)
            if (None if now is None else hashlib.sha256(now).hexdigest()) != edit.before:
                raise Drift(f"{edit.path} is not what the plan was made for", hint="plan again")
        self.before[tx] = {edit.path: self.files.get(edit.path) for edit in edits}
        for edit in edits:
            put(self.files, edit.path, edit.after)
        return self.settle(tx, "applied")

    def revert(self, tx: str) -> Transaction:
        """Take a transaction's edits back."""
        for path, content in self.before[tx].items():
            put(self.files, path, content)
        return self.settle(tx, "reverted")

    def keep(self, tx: str) -> Transaction:
        """Make a transaction part of the known-good state."""
        return self.settle(tx, "kept")

    def forget(self, tx: str) -> Transaction:
        """Let go of a kept transaction."""
        return self.settle(tx, "reverted")

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Transaction]:
        """Undo what is applied, newest first, except for ``keep``."""
        applied = [tx for tx, one in self.states.items() if one.state == "applied"]
        return [self.keep(tx) if tx in keep else self.revert(tx) for tx in reversed(applied)]

    def transactions(self) -> Sequence[Transaction]:
        """All that are not reverted."""
        return [one for one in self.states.values() if one.state != "reverted"]

    def settle(self, tx: str, state: Literal["applied", "kept", "reverted"]) -> Transaction:
        """Note the state of a transaction."""
        digests = {
            path: None if (now := self.files.get(path)) is None else hashlib.sha256(now).hexdigest()
            for path in self.before[tx]
        }
        done = Transaction(id=tx, state=state, files=digests)
        self.states[tx] = done
        return done


class FakeSettings:
    """Settings over a dictionary of values."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.before: dict[str, dict[str, str]] = {}
        self.states: dict[str, Tuning] = {}

    def read(self, settings: Sequence[Setting]) -> Mapping[str, str]:
        """Values of settings."""
        for setting in settings:
            if setting.name not in self.values:
                raise Refused(f"{setting.name} cannot be read: no such file or directory", hint="check its name")
        return {setting.name: self.values[setting.name] for setting in settings}

    def apply(self, tx: str, settings: Sequence[Setting]) -> Tuning:
        """Set values."""
        self.before[tx] = dict(self.read(settings))
        self.values.update({setting.name: setting.value for setting in settings})
        return self.settle(tx, "applied")

    def revert(self, tx: str) -> Tuning:
        """Put a set's values back."""
        self.values.update(self.before[tx])
        return self.settle(tx, "reverted")

    def keep(self, tx: str) -> Tuning:
        """Make a set part of the known-good state."""
        return self.settle(tx, "kept")

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Tuning]:
        """Undo what is applied, newest first, except for ``keep``."""
        applied = [tx for tx, one in self.states.items() if one.state == "applied"]
        return [self.keep(tx) if tx in keep else self.revert(tx) for tx in reversed(applied)]

    def transactions(self) -> Sequence[Tuning]:
        """All that are not reverted."""
        return [
            msgspec.structs.replace(one, values={name: self.values[name] for name in one.values})
            for one in self.states.values()
            if one.state != "reverted"
        ]

    def settle(self, tx: str, state: Literal["applied", "kept", "reverted"]) -> Tuning:
        """Note the state of a set."""
        self.states[tx] = Tuning(id=tx, state=state, values={name: self.values[name] for name in self.before[tx]})
        return self.states[tx]


def put(files: dict[str, bytes], path: str, content: bytes | None) -> None:
    """Put bytes at a path of a dictionary, or take the path away."""
    if content is None:
        files.pop(path, None)
    else:
        files[path] = content


class FakeProcess:
    """A server that lives until it is stopped, or until the test says that it died."""

    def __init__(self, spec: LaunchSpec, *, rss_mb: float = 1.0, packages: str = "") -> None:
        self.spec = spec
        self.rss_mb = rss_mb
        self.packages = packages
        self.status: int | None = None
        self.readings: list[CpuReading] = []

    @property
    def pid(self) -> int:
        """A process id."""
        return 4711

    def poll(self) -> int | None:
        """Exit status, or None while it lives."""
        return self.status

    def stop(self, *, grace_s: float) -> None:
        """End it."""
        del grace_s
        self.status = -15 if self.status is None else self.status

    def cpu(self) -> CpuReading:
        """Next of the prepared readings, else all zero."""
        return self.readings.pop(0) if self.readings else CpuReading(at=0.0, busy_s=0.0, server_s=0.0)

    def inspect(self) -> Inside:
        """What it was started with."""
        return Inside(
            argv=self.spec.argv,
            environ=dict(self.spec.env),
            pids=(self.pid,),
            ports=(),
            rss_mb=self.rss_mb,
            packages=self.packages,
        )

    def surroundings(self) -> Surroundings:
        """Nothing goes on."""
        return Surroundings()


class FakeHost:
    """A machine in memory.

    Args:
        files: Path to bytes; the journal works on them.
        values: Setting to value.

    Attributes:
        rss_mb: Launch to the resident memory of its server, in MB.
        packages: Launch to the digest of its Python packages.
    """

    def __init__(self, files: dict[str, bytes] | None = None, values: dict[str, str] | None = None) -> None:
        self.files = files if files is not None else {}
        self.values = values if values is not None else {}
        self.books = FakeJournal(self.files)
        self.tuned = FakeSettings(self.values)
        self.launches: list[LaunchSpec] = []
        self.seen: list[dict[str, bytes]] = []
        self.left: list[Process] = []
        self.held_by = ""
        self.rss_mb: Callable[[LaunchSpec], float] = lambda _: 1.0
        self.packages: Callable[[LaunchSpec], str] = lambda _: ""

    @property
    def address(self) -> str:
        """Its name."""
        return "fake"

    @property
    def is_here(self) -> bool:
        """Everything in memory is."""
        return True

    @property
    def journal(self) -> FakeJournal:
        """Its journal."""
        return self.books

    @property
    def settings(self) -> FakeSettings:
        """Its journal of settings."""
        return self.tuned

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Completed:
        """Run nothing, successfully."""
        del argv, timeout_s, env
        return Completed(status=0, out=b"", err=b"")

    def spawn(self, spec: LaunchSpec, *, run: str, log: Path) -> FakeProcess:
        """Start a fake server; remember what stood on the host then."""
        log.write_text(f"{run} started\n")
        self.launches.append(spec)
        self.seen.append(dict(self.files))
        return FakeProcess(spec, rss_mb=self.rss_mb(spec), packages=self.packages(spec))

    def surroundings(self) -> Surroundings:
        """Nothing goes on."""
        return Surroundings()

    def counts(self) -> Mapping[str, float]:
        """It counts nothing."""
        return {}

    def strays(self) -> Sequence[Process]:
        """Servers that nobody looks after."""
        return self.left

    def look(self, path: str) -> bytes | None:
        """Bytes at a path."""
        return self.files.get(path)

    @contextmanager
    def lease(self, *, purpose: str) -> Generator[None]:
        """Hold the machine."""
        if self.held_by:
            raise Busy(f"held by {self.held_by}", hint="wait")
        self.held_by = purpose
        try:
            yield
        finally:
            self.held_by = ""

    def holder(self) -> str:
        """Who holds it."""
        return f"held by {self.held_by}" if self.held_by else ""

    def lead(self, words: Sequence[str]) -> Sequence[str]:
        """Nowhere."""
        return words

    @contextmanager
    def reach(self, spec: LaunchSpec) -> Generator[Route]:
        """Where the server says it listens."""
        yield Route(url=spec.url)


class FakeEngine:
    """An engine of programs that are ready at once.

    Attributes:
        proof: What proves a member; None believes everything.
        accepted: Log to what the server says of its speculation.
    """

    def __init__(self, proof: Callable[[Change, Observed], Proof] | None = None) -> None:
        self.proof = proof
        self.accepted: Callable[[str], float | None] = lambda _: None

    name = "fake"
    aliases: Mapping[str, str] = {}
    rules: Sequence[LogRule] = ()
    readiness: Readiness | None = None
    pages: Sequence[str] = ()

    def resolve(self, spec: LaunchSpec, *, which: Callable[[str], str | None]) -> LaunchSpec:
        """Change nothing."""
        del which
        return spec

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Believe everything, unless the test has a proof of its own."""
        if self.proof is not None:
            return self.proof(change, observed)
        return Proof(member=describe(change), holds=True, evidence="a fake")

    def version(self, pages: Mapping[str, str], log: str) -> str:
        """None."""
        del pages, log
        return ""

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """What the test says."""
        del pages
        return self.accepted(log)


class FakeLoad:
    """A benchmark client that measures what a function says.

    Args:
        measure: Launch to a run's metrics, foreign cores and errors; may raise.
    """

    def __init__(self, measured: Callable[[Workload], RunRecord]) -> None:
        self.measured = measured

    def require(self, workloads: Sequence[Workload]) -> None:
        """Everything can be measured."""

    def measure(
        self,
        target: Target,
        workload: Workload,
        *,
        out: Path,
        progress: Callable[[float], None],
        mark: Callable[[], None],
        number: int = 0,
    ) -> RunRecord:
        """Ask the function."""
        del target, mark, number  # the function says what the CPU counters would have said
        out.write_bytes(b"raw")
        progress(1.0)
        return self.measured(workload)
