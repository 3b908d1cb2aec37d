"""A server as a block: inside it a server of ours is ready; outside it no process of it lives and its port is free."""

import json
import re
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from knowngood.errors import Busy, CheckFailed, Died, NotReady, RevertFailed
from knowngood.flow.bench import Bench
from knowngood.flow.http import fetch
from knowngood.flow.logs import log_blocks
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Host, Observed, Process, Readiness, Route, Target
from knowngood.reason.diagnose import diagnose, with_end

OK = 200
POLL_S = 0.05
PORT_FREE_S = 5.0
LOG_TAIL = 4_000_000
LISTEN = "0A"
LEAST_DISK = 1_000_000
STAGE = 120
LAST_WORDS_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that is ready.

    Attributes:
        spec: How it was started.
        route: How it is reached from here.
        process: Its processes.
        log: Its log, here.
        started_at: Unix time of the start.
        ready_s: Seconds it took to become ready.
    """

    spec: LaunchSpec
    route: Route
    process: Process
    log: Path
    started_at: float
    ready_s: float

    @property
    def target(self) -> Target:
        """The server as a benchmark client sees it."""
        return Target(url=self.route.url, there=self.spec.url, alive=lambda: self.process.poll() is None, log=self.log)

    def observe(self, bench: Bench) -> Observed:
        """Look at it from all sides, for the effect proofs."""
        pages = {path: fetch(self.route.url + path) for path in bench.engine.pages}
        return Observed(
            inside=self.process.inspect(),
            pages={path: body for path, (status, body) in pages.items() if status == OK},
            log=read_log(self.log),
        )


def read_log(path: Path) -> str:
    """Return the log so far; of a very long one, the end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_TAIL))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


@contextmanager
def launched(bench: Bench, spec: LaunchSpec, *, run: str) -> Generator[Server]:
    """Start a server and have it ready for the length of a block.

    Args:
        bench: The lab's tools.
        spec: How to start it.
        run: Name of the launch; its log is ``RUN.log``.

    Raises:
        Busy: Somebody else listens on the port.
        Died: It ended before it was ready; the error's facts hold the diagnosis.
        NotReady: It lives but did not become ready in time.
        CheckFailed: Another process answers on the port.
        RevertFailed: A process could not be ended, or the port stays taken.
    """
    real = bench.engine.resolve(spec, which=lambda name: which(bench, name))
    require_free_port(bench.host, real)
    log = bench.scratch / f"{run}.log"
    log.unlink(missing_ok=True)
    started_at, begun = bench.now(), time.monotonic()
    process = bench.host.spawn(real, run=run, log=log)
    try:
        with bench.host.reach(real) as route:
            if bench.engine.readiness is not None:
                wait_ready(bench, process, real, route, bench.engine.readiness, log)
                require_ours(process, real)
            ready_s = time.monotonic() - begun
            yield Server(spec=real, route=route, process=process, log=log, started_at=started_at, ready_s=ready_s)
    finally:
        process.stop(grace_s=bench.stop_grace_s)
        require_port_given_back(bench.host, real)


def which(bench: Bench, name: str) -> str | None:
    """Path of a program on the host; None if it is not there."""
    found = bench.host.run(["sh", "-c", 'command -v -- "$1"', "sh", name], timeout_s=30)
    return found.out.decode().strip() or None


def wait_ready(bench: Bench, process: Process, spec: LaunchSpec, route: Route, readiness: Readiness, log: Path) -> None:
    """Wait for health and a first answer; notice death at once and tell progress from silence.

    Raises:
        Died: It ended.
        NotReady: The time is up.
    """
    begun = time.monotonic()
    stir = Stirring(process, log, readiness)
    while (left_s := begun + bench.ready_timeout_s - time.monotonic()) > 0:
        status = process.poll()
        if status is not None:
            raise died(bench, status, log, seconds=time.monotonic() - begun)
        if stir.hopeless:
            raise died(bench, wait_end(process), log, seconds=time.monotonic() - begun)
        healthy = fetch(route.url + readiness.health, timeout_s=min(2.0, left_s))[0] == OK
        if healthy and answers(route.url, readiness, timeout_s=min(60.0, left_s)):
            return
        stir.look()
        bench.show.advance(f"waiting for the server: {stir.describe(readiness.quiet_s)}", 0.0)
        time.sleep(POLL_S)
    found = with_end(diagnose(log_blocks(log), bench.rules), silent_s=stir.silent_s(readiness.quiet_s))
    state = stir.describe(readiness.quiet_s)
    raise NotReady(
        f"{spec.argv[0]} lives but was not ready after {bench.ready_timeout_s:.0f} s: {state}",
        hint=found.remedy or f"read its log: {log}",
        diagnosis=found,
        state=state,
    )


class Stirring:
    """Whether a server that is not ready yet still does something: CPU used, lines logged.

    Attributes:
        stage: The line that told last how far the start has come.
        hopeless: A line after which it never becomes ready.
    """

    def __init__(self, process: Process, log: Path, readiness: Readiness) -> None:
        self.process = process
        self.log = log
        self.readiness = readiness
        self.stage = ""
        self.hopeless = ""
        self.begun_line = b""
        self.cpu_s = 0.0
        self.size = 0
        self.stirred_at = time.monotonic()
        self.looked_at = 0.0

    def look(self) -> None:
        """Take a reading, at most once a second."""
        now = time.monotonic()
        if now - self.looked_at < 1:
            return
        cpu_s = self.process.cpu().server_s
        size: int = self.log.stat().st_size if self.log.exists() else 0
        if size != self.size or cpu_s - self.cpu_s > 0.05 * (now - self.looked_at):
            self.stirred_at = now
        self.read(self.size, size)
        self.cpu_s, self.size, self.looked_at = cpu_s, size, now

    def read(self, start: int, end: int) -> None:
        """Look at the lines that were written since the last reading."""
        if end <= start:
            return
        with self.log.open("rb") as file:
            file.seek(start)
            *whole, self.begun_line = (self.begun_line + file.read(end - start)).split(b"\n")
        for line in (one.decode(errors="replace").strip() for one in whole):
            if any(re.search(stage, line) for stage in self.readiness.stages):
                self.stage = line[-STAGE:]
            if not self.hopeless and self.readiness.hopeless and re.search(self.readiness.hopeless, line):
                self.hopeless = line

    def silent_s(self, quiet_s: float) -> float:
        """Seconds without a sign of life; 0 if they are fewer than ``quiet_s``."""
        idle = time.monotonic() - self.stirred_at
        return idle if idle >= quiet_s else 0.0

    def describe(self, quiet_s: float) -> str:
        """``still progressing``, or ``silent for N s``, and the stage it has come to."""
        silent_s = self.silent_s(quiet_s)
        state = f"silent for {silent_s:.0f} s" if silent_s else "still progressing"
        return f"{state}, at: {self.stage}" if self.stage else state


def answers(url: str, readiness: Readiness, *, timeout_s: float = 60.0) -> bool:
    """Whether the first answer comes: a healthy page alone proves little."""
    if not readiness.first_answer:
        return True
    body = {"prompt": "Hello", "max_tokens": 1, "model": served_model(url), "temperature": 0}
    if readiness.first_answer.endswith("/chat/completions"):
        body = {**body, "messages": [{"role": "user", "content": "Hello"}]}
    status, _ = fetch(url + readiness.first_answer, body=body, timeout_s=timeout_s)
    return status == OK


def served_model(url: str) -> str:
    """Name of the model that the server lists first; empty if it lists none."""
    status, page = fetch(url + "/v1/models")
    try:
        return str(json.loads(page)["data"][0]["id"]) if status == OK else ""
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def wait_end(process: Process, *, patience_s: float = LAST_WORDS_S) -> int | None:
    """Exit status of a server that may just be dying; None if it lives on."""
    until = time.monotonic() + patience_s
    while (status := process.poll()) is None and time.monotonic() < until:
        time.sleep(0.02)
    return status


def died(bench: Bench, status: int | None, log: Path, *, seconds: float) -> Died:
    """Error for a server that ended, or whose first process outlives those that do the work; with the root cause."""
    found = with_end(diagnose(log_blocks(log), bench.rules), signal=max(0, -(status or 0)))
    if status is None:
        how = "a process of it has failed, the first one lives on"
    else:
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
    cause = "" if found.abstained else f": {found.line.strip()}"
    full = shutil.disk_usage(log.parent).free < LEAST_DISK
    hint = f"the disk that holds its log is full: make room in {log.parent}" if full else found.remedy
    hint = hint or f"read its log: {log}"
    return Died(f"the server ended {seconds:.1f} s after its start ({how}){cause}", hint=hint, diagnosis=found)


def require_free_port(host: Host, spec: LaunchSpec) -> None:
    """Refuse to start beside another server.

    Raises:
        Busy: Somebody listens on the port.
    """
    if spec.port and listens(host, spec.port):
        hint = f"stop it, or set another [server] port; `ss -ltnp 'sport = :{spec.port}'` names it"
        raise Busy(f"somebody listens on {spec.address}:{spec.port} already", hint=hint, port=spec.port)


def require_ours(process: Process, spec: LaunchSpec) -> None:
    """Make sure that the process we measure is the one we launched.

    Raises:
        CheckFailed: None of its processes listens on the port.
    """
    inside = process.inspect()
    if spec.port and spec.port not in inside.ports:
        hint = "does the command listen on another port than [server] port says?"
        raise CheckFailed(f"port {spec.port} is answered by a process that is not ours", hint=hint)


def require_port_given_back(host: Host, spec: LaunchSpec) -> None:
    """Make sure that the next launch finds the port free.

    Raises:
        RevertFailed: Somebody still listens on it.
    """
    until = time.monotonic() + PORT_FREE_S
    while spec.port and listens(host, spec.port):
        if time.monotonic() > until:
            raise RevertFailed(
                f"port {spec.port} is still taken after the server was stopped", hint="knowngood recover"
            )
        time.sleep(POLL_S)


def listens(host: Host, port: int) -> bool:
    """Whether somebody on the host listens on a TCP port, whatever the address."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (host.look(table) or b"").decode().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                return True
    return False
