"""One launch, measured: edits on the host, server ready, effects proven, workloads run, everything back."""

import hashlib
import statistics
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from knowngood.config.lab import GOODPUT
from knowngood.errors import CheckFailed, LoadError, Refused
from knowngood.flow.bench import Bench
from knowngood.flow.journal import applied
from knowngood.flow.pins import seen_packages
from knowngood.flow.preflight import Arms
from knowngood.flow.server import Server, died, launched, wait_end
from knowngood.flow.settings import tuned
from knowngood.flow.window import Window
from knowngood.flow.witness import Asked, asked
from knowngood.model.evidence import ACCEPTANCE, Arm, LaunchRecord, Proof, RunRecord
from knowngood.model.hypothesis import Sign
from knowngood.model.workload import Workload
from knowngood.ports import Observed
from knowngood.reason.load import foreign_cores
from knowngood.reason.sign import find_sign

INTERRUPTIONS = 2
DEAR_S = 300.0
"""A launch that takes so long to be ready is worth two runs (Kalibera & Jones 2013: root of the ratio of costs, times
the ratio of spreads)."""
Again = Callable[[Sequence[float]], bool]
"""Whether the objective must be run once more in this launch, given its values so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Place of a launch in its trial: which lab and run, which arm, which pair, which attempt at it."""

    lab: str
    run: str
    arm: Arm
    index: int
    pair: int
    attempt: int = 0

    @property
    def name(self) -> str:
        """Unique on the machine, and a file name."""
        return f"{self.lab}{self.run}-{self.index:02d}-{self.arm}"


@contextmanager
def standing(bench: Bench, arms: Arms, slot: Slot) -> Generator[tuple[Server, Asked]]:
    """Have one arm's server ready for the length of a block: its edits and settings on the host, everything back after.

    Yields:
        The server, and what its processes were asked to say of themselves.

    Raises:
        LaunchError: The server did not come up.
    """
    is_candidate = slot.arm == "candidate"
    edits = arms.edits if is_candidate else arms.baseline_edits
    settings = arms.changes.settings() if is_candidate else ()
    with (
        applied(bench.host.journal, slot.name, edits),
        tuned(bench.host.settings, slot.name, settings),
        asked(bench, arms, slot.arm, name=slot.name) as witness,
        launched(bench, witness.spec, run=slot.name) as server,
    ):
        yield server, witness


def measure_launch(
    bench: Bench, arms: Arms, slot: Slot, *, again: Again, on_measured: Callable[[Server, LaunchRecord], None]
) -> LaunchRecord:
    """Start one arm, measure it and bring the host back.

    Args:
        bench: The lab's tools.
        arms: Both arms.
        slot: Which arm, and where in the trial.
        again: Whether the objective must be run once more in this launch.
        on_measured: Called once it is measured, while the server still runs. What takes long belongs here, so that both
            arms are measured at the same age.

    Returns:
        The launch; its log and raw samples are artifacts already.

    Raises:
        LaunchError: The server did not come up, or died.
        CheckFailed: A member of the change set is not in force.
        LoadError: The benchmark client could not do its work.
    """
    objective = bench.config.workloads[0].name
    is_candidate = slot.arm == "candidate"
    with standing(bench, arms, slot) as (server, witness):
        least = 2 if server.ready_s >= DEAR_S else 1
        runs = run_workloads(bench, server, slot, again=lambda values: len(values) < least or again(values))
        observed = server.observe(bench)
        proofs = prove(bench, observed, arms, witness) if is_candidate else ()
        require_telling(arms, observed, slot.arm)
        runs = with_acceptance(runs, bench.engine.acceptance_length(observed.pages, observed.log))
        launch = LaunchRecord(
            arm=slot.arm,
            index=slot.index,
            pair=slot.pair,
            attempt=slot.attempt,
            started_at=server.started_at,
            ready_s=server.ready_s,
            runs=runs,
            value=statistics.median(value_of(bench, run) for run in runs if run.workload == objective),
            proofs=proofs,
            rss_mb=memory_of(bench, runs[0], observed),
            packages=observed.inside.packages,
            took_s=bench.now() - server.started_at,
        )
        on_measured(server, launch)
    if (busy := foreign_cores(launch)) > bench.config.verdict.foreign_cores:
        bench.show.note(f"the host is busy: others used {busy:.2f} cores during launch {slot.index + 1}")
    return msgspec.structs.replace(launch, log=bench.artifacts.put(server.log))


def memory_of(bench: Bench, first: RunRecord, observed: Observed) -> float:
    """Resident memory of a launch, in MB.

    That of a server is the one of the first window's opening: what it caches of finished requests grows with its speed.
    A program that runs to its end has no window.
    """
    return first.rss_mb if bench.engine.readiness is not None else observed.inside.rss_mb


def run_workloads(bench: Bench, server: Server, slot: Slot, *, again: Again) -> tuple[RunRecord, ...]:
    """Run the objective, as often as the rule asks, then each guard workload once."""
    objective, *guards = bench.config.workloads
    runs = [run_once(bench, server, objective, slot, number=0)]
    while again([value_of(bench, run) for run in runs]):
        runs.append(run_once(bench, server, objective, slot, number=len(runs)))
    runs += [run_once(bench, server, guard, slot, number=0) for guard in guards]
    return tuple(runs)


def run_once(bench: Bench, server: Server, workload: Workload, slot: Slot, *, number: int) -> RunRecord:
    """Run one workload against a running server; once more, if the way to it was interrupted meanwhile.

    Raises:
        Died: The server died under the load; samples of finished requests are kept.
        LoadError: The client could not do its work, or no request succeeded.
    """
    for attempt in range(INTERRUPTIONS + 1):
        broken = server.route.breaks()
        try:
            run = try_once(bench, server, workload, slot, number=number)
        except LoadError:
            if (
                wait_end(server.process, patience_s=1.0) is not None
                or server.route.breaks() == broken
                or attempt == INTERRUPTIONS
            ):
                raise
        else:
            if server.route.breaks() == broken:
                return run
        bench.show.note(f"{workload.name} does not count: the connection was lost while it ran")
    raise LoadError(
        f"the connection to {bench.host.address} was lost in {INTERRUPTIONS + 1} runs one after another",
        hint="measure over a steadier connection",
    )


def try_once(bench: Bench, server: Server, workload: Workload, slot: Slot, *, number: int) -> RunRecord:
    """Run one workload against a running server.

    Raises:
        Died: The server died under the load; samples of finished requests are kept.
        LoadError: The client could not do its work, or no request succeeded.
    """
    out = bench.scratch / f"{slot.name}-{workload.name}-{number}.jsonl.gz"
    is_here = bench.host.is_here
    window = Window(
        process=server.process,
        age=lambda: bench.now() - server.started_at - server.ready_s,
        is_here=is_here,
        has_client=is_here or bench.config.host.load_from == "host",
    )
    window.open()
    step = f"launch {slot.index + 1} ({slot.arm}): {workload.name}"
    try:
        run = bench.load.measure(
            server.target,
            workload,
            out=out,
            progress=lambda share: bench.show.advance(step, share),
            mark=window.mark,
            number=number,
        )
    except LoadError as error:
        status = wait_end(server.process, patience_s=1.0)
        if status is not None and bench.engine.readiness is not None:
            raise died(bench, status, server.log, seconds=bench.now() - server.started_at) from error
        raise
    finally:
        samples = bench.artifacts.put(out) if out.exists() and out.stat().st_size else ""
    if run.requests and run.errors == run.requests:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in run.error_kinds.items())
        raise LoadError(f"all {run.requests} requests failed: {kinds}", hint=f"read the server's log: {server.log}")
    return window.settle(msgspec.structs.replace(run, samples=samples))


def value_of(bench: Bench, run: RunRecord) -> float:
    """Value of the objective's metric in a run.

    Raises:
        LoadError: The run has no such metric, or it is not above zero.
    """
    metric = bench.config.objective.metric
    value = run.metrics.get(metric)
    if value is None:
        known = ", ".join(sorted(run.metrics))
        raise LoadError(f"the run has no metric {metric!r}", hint=f"set [objective] metric to one of: {known}")
    if not value > 0:
        hint = "effects are ratios: the objective must be above zero"
        if metric == GOODPUT:
            hint = f"no request kept the limits of the workload's slo; {hint}"
        raise LoadError(f"{metric} is {value}", hint=hint)
    return value


def prove(bench: Bench, observed: Observed, arms: Arms, witness: Asked) -> tuple[Proof, ...]:
    """Prove every member of the change set to be in force, and that its sign shows.

    Raises:
        CheckFailed: A member is not; the facts hold all proofs.
    """
    files = {edit.path: "" if edit.after is None else hashlib.sha256(edit.after).hexdigest() for edit in arms.edits}
    packages = seen_packages(bench, arms.overlay, arms.changes, observed.inside)
    observed = msgspec.structs.replace(
        observed,
        files=files,
        settings=read_settings(bench, arms),
        overlay=arms.overlay.folder if arms.overlay else "",
        pins={name: one.version for name, one in packages.items()},
        tops={name: one.tops for name, one in packages.items()},
        witness=witness.read(observed.inside),
    )
    proofs = tuple(bench.engine.prove(member, observed) for member in arms.changes.members)
    proofs += (prove_sign(arms.sign, observed),) if arms.sign else ()
    for proof in proofs:
        if proof.holds is False:
            raise CheckFailed(
                f"{proof.member} is not in force: {proof.evidence}",
                hint="a number measured now would be the baseline's: the trial is void",
                proofs=proofs,
                proof=proof,
            )
    return proofs


def prove_sign(sign: Sign, observed: Observed) -> Proof:
    """Look for what shows that the change was reached."""
    found = find_sign(sign, observed.pages, observed.log)
    member = f"proves log {sign.log}" if sign.log else f"proves metric {sign.metric} above {sign.above:g}"
    return Proof(member=member, holds=bool(found), evidence=found or "it does not show")


def require_telling(arms: Arms, observed: Observed, arm: Arm) -> None:
    """Refuse a sign that shows on the baseline, too: it tells nothing.

    Raises:
        CheckFailed: It does.
    """
    found = find_sign(arms.sign, observed.pages, observed.log) if arms.sign and arm == "baseline" else ""
    if found:
        raise CheckFailed(f"what `proves` names shows without the change, too: {found}", hint="name something else")


def with_acceptance(runs: tuple[RunRecord, ...], length: float | None) -> tuple[RunRecord, ...]:
    """The runs of a launch with the acceptance length of its speculation, where there is any."""
    if length is None:
        return runs
    return tuple(msgspec.structs.replace(run, metrics={**run.metrics, ACCEPTANCE: length}) for run in runs)


def read_settings(bench: Bench, arms: Arms) -> dict[str, str]:
    """What the settings of the change set read now; none of them if one cannot be read."""
    try:
        return dict(bench.host.settings.read(arms.changes.settings()))
    except Refused:
        return {}
