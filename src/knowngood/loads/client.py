"""The built-in streaming client: starts the generator in its own process, watches it and the server, sums up."""

import os
import selectors
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from knowngood.errors import LoadError, UsageError
from knowngood.loads import far
from knowngood.loads.plan import Plan
from knowngood.loads.prompts import read_prompts
from knowngood.loads.samples import Samples, read_samples
from knowngood.loads.words import Draw
from knowngood.model.evidence import RunRecord
from knowngood.model.workload import Lengths, Workload
from knowngood.ports import Target

# How often the server is looked at, and how long a generator that was told to stop may write its samples.
_LOOK_S: Final = 0.2
_STOP_S: Final = 5.0
# Passes that a launch has at most, and so parts of a prompt file; and the place of a later pass in generated prompts.
PASSES: Final = 3
STRIDE: Final = 1_000_000
# Values of the metric client_priority.
_PRIORITIES: Final = {"normal": 0.0, "nice": 1.0, "realtime": 2.0}


class _Line(msgspec.Struct, frozen=True):
    """One line that the generator prints; each sets some of these."""

    progress: float | None = None
    mark: Literal["start", "end"] | None = None
    failed: str = ""
    done: bool | None = None
    cpu_s: float = 0.0
    priority: str = "normal"
    frame: bytes = b""


Lead = Callable[[Sequence[str]], Sequence[str]]
"""Command that, run here, runs a program on the server's host, with its input and output connected."""


class Client:
    """Streams OpenAI completions over HTTP/1.1 and stamps every event when the kernel received it.

    Args:
        lead: Where the load comes from the server's host: leads there. None has it come from this machine.
        python: Interpreter on that host to try first; empty for none.
    """

    def __init__(self, *, lead: Lead | None = None, python: str = "") -> None:
        self._lead = lead
        self._python = python

    def require(self, workloads: Sequence[Workload]) -> None:
        """Nothing to look for: this client is part of the package."""

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
        """Run one pass; beside the metrics of ``summarise`` it records ``client_cpu_s`` and ``client_priority``.

        Raises:
            UsageError: The workload or the server's URL cannot be used; nothing was sent.
            LoadError: The server died, or the client could not do its work. Samples written before stay readable.
        """
        plan = plan_pass(target.there if self._lead else target.url, workload, out=out, number=number)
        last = _Line()
        with (
            tempfile.TemporaryDirectory(prefix="knowngood-load-") as scratch,
            self._generator(plan, Path(scratch)) as process,
        ):
            for line in _watch(process, target):
                if line.frame:
                    _append(out, line.frame)
                if line.progress is not None:
                    progress(line.progress)
                if line.mark is not None:
                    mark()
                last = line
            process.wait()
            if last.done is not True:
                raise _failure(last, Path(scratch) / "stderr", out)
        progress(1.0)
        return _record(read_samples(out), workload, last)

    @contextmanager
    def _generator(self, plan: Plan, scratch: Path) -> Generator["subprocess.Popen[bytes]"]:
        """Start the generator; on leaving it is gone, its samples written as far as they were."""
        if self._lead:
            Path(plan.out).unlink(missing_ok=True)
        path = scratch / "input"
        path.write_bytes(far.parcel(plan) if self._lead else plan.to_json().encode())
        here = [sys.executable, "-m", "knowngood.loads.generator", str(path)]
        with (scratch / "stderr").open("wb") as stderr, path.open("rb") as stdin:
            process = subprocess.Popen(
                self._lead(far.words(self._python)) if self._lead else here,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=_environment(),
                # Ctrl-C is for us; the generator is then told to write its samples and go.
                start_new_session=True,
            )
        with process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()


def plan_pass(url: str, workload: Workload, *, out: Path, number: int = 0) -> Plan:
    """Make a pass's plan of a workload, all input checked.

    Args:
        url: Root URL of the server.
        workload: What to ask of it.
        out: File for the raw samples.
        number: Of the pass in its launch: each has a part of the prompts to itself, as far as they suffice. A pass that
            sent the first one's prompts again would measure the server's prompt cache.

    Raises:
        UsageError: The workload or the URL cannot be used.
    """
    host, port, prefix = _split(url)
    if (workload.concurrency > 0) == (workload.rate > 0):
        raise UsageError(
            f"workload {workload.name!r} must set exactly one of concurrency and rate",
            hint="concurrency = 4 keeps 4 requests in flight; rate = 2.5 sends 2.5 requests per second",
        )
    if workload.requests <= 0 and workload.duration_s <= 0:
        raise UsageError(f"workload {workload.name!r} measures nothing", hint="set requests or duration_s above 0")
    if workload.timeout_s <= 0:
        raise UsageError(f"workload {workload.name!r}: timeout_s must be above 0")
    prompts = read_prompts(Path(workload.prompts)) if workload.prompts else ()
    return Plan(
        host=host,
        port=port,
        prefix=prefix,
        out=str(out),
        endpoint=workload.endpoint,
        model=workload.model,
        prompts=prompts,
        isl=_draw(workload.isl),
        osl=_draw(workload.osl),
        concurrency=workload.concurrency,
        rate=workload.rate,
        arrivals=workload.arrivals,
        duration_s=workload.duration_s,
        requests=max(0, workload.requests),
        # At least one whole wave, so that the window opens with every slot in use.
        warmup=max(workload.warmup, workload.concurrency, 0),
        timeout_s=workload.timeout_s,
        seed=workload.seed,
        first=number * max(1, len(prompts) // PASSES if prompts else STRIDE),
        extra=dict(workload.extra),
    )


def _split(url: str) -> tuple[str, int, str]:
    parts = urlsplit(url)
    if parts.scheme == "https":
        raise UsageError(
            f"the load client speaks plain HTTP only, not {url}",
            hint="point it at the server itself, behind the TLS proxy; a proxy would be measured too",
        )
    try:
        port = parts.port or 80
    except ValueError as error:
        raise UsageError(f"not a server's URL: {url}: {error}") from error
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(f"not a server's URL: {url}", hint="write it like http://127.0.0.1:8000")
    return parts.hostname, port, parts.path.rstrip("/").removesuffix("/v1")


def _draw(lengths: Lengths) -> Draw:
    if lengths.high and lengths.high < lengths.low:
        raise UsageError(f"lengths: high = {lengths.high} is below low = {lengths.low}")
    return Draw(lengths.mean, lengths.sd, lengths.low, lengths.high)


def _environment() -> dict[str, str]:
    """Let the generator find this very package, however it was found here."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def _watch(process: "subprocess.Popen[bytes]", target: Target) -> Iterator[_Line]:
    """Yield what the generator prints until it closes its output.

    Raises:
        LoadError: The server died.
    """
    if process.stdout is None:
        raise AssertionError
    pipe = process.stdout.fileno()
    decoder = msgspec.json.Decoder(_Line)
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if selector.select(_LOOK_S):
                data = os.read(pipe, 65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                # On another machine start-up files may print something first.
                yield from (decoder.decode(line) for line in lines if line.startswith(b"{"))
            if not target.alive():
                raise LoadError(
                    f"the server at {target.url} died while it was measured",
                    hint=f"its log says why: {target.log}",
                    log=str(target.log),
                )


def _append(out: Path, frame: bytes) -> None:
    """Take in a frame of samples that came from another machine.

    Raises:
        LoadError: The disk does not take it.
    """
    try:
        with out.open("ab") as file:
            file.write(frame)
    except OSError as error:
        raise LoadError(f"cannot write the samples to {out}: {error.strerror}", hint="is the disk full?") from error


def _failure(last: _Line, stderr: Path, out: Path) -> LoadError:
    if last.failed:
        return LoadError(f"the load generator gave up: {last.failed}", hint=f"samples written before: {out}")
    said = stderr.read_text(errors="replace").strip().rpartition("\n")[2]
    return LoadError(f"the load generator died: {said or 'it was killed'}", hint=f"samples written before: {out}")


def _record(samples: Samples, workload: Workload, last: _Line) -> RunRecord:
    from knowngood.loads.summary import summarise  # noqa: PLC0415 - numpy only when there is something to sum up

    if samples.window is None:
        raise LoadError("the samples have no measured window", hint="the generator was stopped before it opened")
    measured = [one for one in samples.requests if one.phase == "measured"]
    kinds = Counter(one.error for one in measured if one.error)
    metrics = summarise(samples, slo=workload.slo, is_open=workload.rate > 0)
    return RunRecord(
        workload=workload.name,
        metrics={**metrics, "client_cpu_s": last.cpu_s, "client_priority": _PRIORITIES[last.priority]},
        requests=len(measured),
        errors=kinds.total(),
        seconds=(samples.window.end_us - samples.window.start_us) / 1e6,
        error_kinds=dict(kinds),
    )
