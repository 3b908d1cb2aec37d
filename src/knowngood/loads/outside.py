"""Benchmark clients of others as the lab's load: a process of its own, run to its end, its result read."""

import contextlib
import os
import resource
import shlex
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from knowngood.config.lab import LoadTable
from knowngood.config.values import seconds
from knowngood.errors import LoadError, UsageError
from knowngood.loads.client import plan_pass
from knowngood.loads.discover import Failed, connect_once, first_model
from knowngood.loads.metrics import NoMetrics, last_object
from knowngood.loads.peers import PEERS
from knowngood.loads.peers.peer import Job, Peer, Reading, unread
from knowngood.model.evidence import RunRecord
from knowngood.model.workload import Workload
from knowngood.ports import Target

_LOOK_S: Final = 0.1
_STOP_S: Final = 5.0
_LOG: Final = "client.log"
_TOLD: Final = 4


def open_outside(load: LoadTable, *, is_here: bool) -> "Outside":
    """The client that ``[load]`` names.

    Args:
        load: The table; its client is one of others.
        is_here: Whether the load comes from this machine, as ``[host] load_from`` says.

    Raises:
        UsageError: It should come from the host.
    """
    if not is_here:
        hint = '[host] load_from = "here", or [load] client = "knowngood"'
        raise UsageError(f"[load] client {load.client} runs on this machine, not on the host", hint=hint)
    return AnyProgram(load) if load.client == "command" else PeerClient(PEERS[load.client], load)


class Outside(ABC):
    """What all clients of others have in common.

    Args:
        name: Of the client.
        load: How it is run.
    """

    def __init__(self, name: str, load: LoadTable) -> None:
        self.name = name
        self.load = load
        self.timeout_s = seconds(load.timeout, where="[load] timeout")

    @abstractmethod
    def require(self, workloads: Sequence[Workload]) -> None:
        """Refuse before anything starts what this client cannot do.

        Raises:
            UsageError: Its program is not there, or a workload cannot be told to it.
        """

    @abstractmethod
    def _argv(self, job: Job) -> list[str]:
        """Program and arguments for a pass."""

    @abstractmethod
    def _read(self, job: Job) -> Reading:
        """What it reported of a pass that ended well."""

    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.load.env}

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
        """Run one pass; all that the client wrote is packed into ``out``.

        The window of the CPU counters is the client's whole run, its start included: ``client_cpu_s`` is its CPU time.

        Raises:
            UsageError: The server's URL cannot be used.
            LoadError: The server died; the client failed, took too long, or left no result that can be read.
        """
        with tempfile.TemporaryDirectory(prefix="knowngood-load-") as scratch:
            folder = Path(scratch) / self.name
            folder.mkdir()
            job = self._job(target, workload, folder=folder, number=number)
            argv = self._argv(job)
            before, began = _children_cpu_s(), time.monotonic()
            mark()
            try:
                self._run(argv, target, folder)
                mark()
                seconds, used = time.monotonic() - began, _children_cpu_s() - before
                found = self._read(job)
            except (LookupError, TypeError, ValueError, OSError, ArithmeticError, RecursionError) as error:
                raise unread(self.name, error) from error
            finally:
                _pack(folder, out)
        progress(1.0)
        return RunRecord(
            workload=workload.name,
            metrics={**found.metrics, "client_cpu_s": used},
            requests=found.requests,
            errors=sum(found.error_kinds.values()),
            seconds=seconds,
            error_kinds=found.error_kinds,
            client=self.name,
        )

    def _job(self, target: Target, workload: Workload, *, folder: Path, number: int) -> Job:
        plan = plan_pass(target.url, workload, out=folder)
        try:
            model = workload.model or first_model(plan, connect_once(plan))
        except Failed as error:
            raise LoadError(str(error), hint=f"the server's log may say why: {target.log}") from error
        return Job(
            url=target.url,
            model=model,
            tokenizer=self.load.tokenizer,
            workload=workload,
            seed=workload.seed + number,
            folder=folder,
        )

    def _run(self, argv: Sequence[str], target: Target, folder: Path) -> None:
        """Run the client to its end; on leaving, no process of it lives.

        Raises:
            LoadError: It failed, or took too long; or the server died.
        """
        log = folder / _LOG
        with log.open("wb") as output:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env=self._env(),
                    # Ctrl-C is for us; the client is then told to go.
                    start_new_session=True,
                )
            except OSError as error:
                raise LoadError(
                    f"{argv[0]} cannot be started: {error.strerror}", hint="check [load] program"
                ) from error
        until = time.monotonic() + self.timeout_s
        try:
            while process.poll() is None:
                if not target.alive():
                    raise LoadError(
                        f"the server at {target.url} died while it was measured",
                        hint=f"its log says why: {target.log}",
                        log=str(target.log),
                    )
                if time.monotonic() > until:
                    raise LoadError(
                        f"{self.name} did not end within {self.timeout_s:g} s; it said last: {_tail(log)}",
                        hint="raise [load] timeout, or ask for fewer requests",
                    )
                time.sleep(_LOOK_S)
        finally:
            _end(process)
        if process.returncode:
            raise LoadError(
                f"{self.name} ended with status {process.returncode}: {_tail(log)}",
                hint=f"it was started as: {shlex.join(argv)}",
            )


class PeerClient(Outside):
    """A client that we know how to tell what to do.

    Args:
        peer: The client.
        load: How it is run.
    """

    def __init__(self, peer: Peer, load: LoadTable) -> None:
        super().__init__(peer.name, load)
        self.peer = peer
        self.program = load.program or peer.program

    def require(self, workloads: Sequence[Workload]) -> None:
        """See ``Outside.require``."""
        _require_program(self.program[0], hint=f"{self.peer.install}, or write its path in [load] program")
        for workload in workloads:
            self.peer.require(workload)

    def _argv(self, job: Job) -> list[str]:
        return [*self.program, *self.peer.argv(job), *self.load.args]

    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.peer.env(self.load.tokenizer), **self.load.env}

    def _read(self, job: Job) -> Reading:
        return self.peer.read(job)


class AnyProgram(Outside):
    """A program of the user's own, told by words in braces; it prints its metrics, or writes them to ``{out}``.

    Args:
        load: How it is run.
    """

    def __init__(self, load: LoadTable) -> None:
        super().__init__("command", load)

    def require(self, workloads: Sequence[Workload]) -> None:
        """See ``Outside.require``."""
        del workloads  # what it makes of them is its own matter
        if not self.load.program:
            raise UsageError("[load] has no program", hint='program = ["./bench.sh", "{url}"] is run for each pass')
        _require_program(self.load.program[0], hint="write its path in [load] program")

    def _argv(self, job: Job) -> list[str]:
        told = words(job)
        return [_fill(word, told) for word in (*self.load.program, *self.load.args)]

    def _read(self, job: Job) -> Reading:
        written = Path(words(job)["out"])
        source = written if written.exists() else job.folder / _LOG
        try:
            metrics, _ = last_object(source.read_text(encoding="utf-8", errors="replace"))
        except NoMetrics as error:
            hint = 'print one line such as {"tok_s": 123.4} last, or write it to {out}'
            raise LoadError(f"{error} in {source.name}: {_tail(job.folder / _LOG)}", hint=hint) from error
        failed = int(metrics.get("errors", 0))
        kinds = {"failed": failed} if failed else {}
        return Reading(metrics=metrics, requests=int(metrics.get("requests", 1)), error_kinds=kinds)


def words(job: Job) -> dict[str, str]:
    """What can stand in braces in ``[load] program`` and ``args``."""
    load = job.workload
    return {
        "url": job.url,
        "model": job.model,
        "tokenizer": job.tokenizer,
        "out": str(job.folder / "out.json"),
        "seed": str(job.seed),
        "concurrency": str(load.concurrency),
        "rate": f"{load.rate:g}",
        "requests": str(load.requests),
        "duration_s": f"{load.duration_s:g}",
        "isl": f"{load.isl.mean:g}",
        "osl": f"{load.osl.mean:g}",
    }


def _fill(word: str, told: Mapping[str, str]) -> str:
    """Replace the words we know; other braces, such as those of JSON, stay as they are."""
    for name, value in told.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _require_program(name: str, *, hint: str) -> None:
    if shutil.which(name) is None:
        raise UsageError(f"there is no program {name!r} here", hint=hint)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a client and whatever it has started: ask, wait, kill."""
    for sign, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, None)):
        # The group may outlive its leader.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)


def _tail(log: Path) -> str:
    """The last lines of a log, as one."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return " / ".join([line for line in lines if line][-_TOLD:]) or "nothing"


def _children_cpu_s() -> float:
    """CPU seconds of all child processes that have ended and were waited for, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _pack(folder: Path, out: Path) -> None:
    """Pack what a client wrote, as the raw samples of the pass."""
    with tarfile.open(out, "w:gz", compresslevel=1) as archive:
        archive.add(folder, arcname=folder.name)
