"""One trial: compare a candidate with the baseline, pair by pair, until the rule decides; then keep it or leave it.

Every launch brings the host back by itself (``launch.standing`` is a row of ``with`` blocks), so between two launches
the host is at known-good, whatever happened. A keep puts the change set on the host once more, as part of known-good.
"""

import contextlib
from collections.abc import Sequence

import msgspec

from knowngood.config.lab import better_direction
from knowngood.errors import CheckFailed, KnowngoodError, LaunchError, LoadError
from knowngood.flow.bench import Bench
from knowngood.flow.cost import announce, require_answerable
from knowngood.flow.pairs import Pairs
from knowngood.flow.preflight import (
    Arms,
    lab_prefix,
    plan_trial,
    require_baseline,
    require_known_good,
    require_no_drift,
    require_same_host,
)
from knowngood.flow.server import require_free_port
from knowngood.flow.settings import settled
from knowngood.model.baseline import Baseline
from knowngood.model.change import Pin
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import FindingRecorded, LaunchFailed, Overridden, TrialEnded, TrialStarted
from knowngood.model.evidence import LaunchRecord
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.verdict import Verdict
from knowngood.reason.blame import blame
from knowngood.reason.comparison import Comparison, own_noise
from knowngood.reason.findings import learn
from knowngood.reason.fold import resumable
from knowngood.reason.records import Trial


def run_trial(
    bench: Bench,
    hypothesis: Hypothesis,
    *,
    profile: str = "",
    override: str = "",
    force: bool = False,
    leased: bool = False,
) -> Trial:
    """Test a hypothesis against the baseline.

    Args:
        bench: The lab's tools.
        hypothesis: What to test.
        profile: How much evidence is wanted; empty means what the lab file says.
        override: Reason for trying a known dead end all the same; stored.
        force: Try it even if the design cannot find the predicted effect.
        leased: The caller holds the host's lease.

    Returns:
        The trial with its verdict. The host is at known-good, which after a keep includes the change set.

    Raises:
        Refused: It is a known dead end, an edit does not apply, its own prediction is too small to be found, or the
            host is another one; nothing was changed.
        Quarantined: Earlier work was cut off.
        RevertFailed: The host could not be brought back; it is quarantined.
    """
    purpose = f"trial of {hypothesis.name} in {bench.config.root}"
    with contextlib.nullcontext() if leased else bench.host.lease(purpose=purpose):
        require_known_good(bench)
        baseline = require_baseline(bench)
        require_no_drift(bench)
        require_same_host(bench, baseline)
        arms, dead = plan_trial(bench, hypothesis, baseline, override=override)
        comparison = prepare(bench, baseline, profile or bench.config.verdict.profile)
        if not force:
            require_answerable(bench, hypothesis, comparison.profile)
        require_free_port(bench.host, baseline.spec)
        started = opening(bench, hypothesis, comparison)
        name = started.trial
        announce(bench, f"{name} {hypothesis.name}", comparison.profile)
        try:
            bench.memory.record(started)
            if dead is not None:
                bench.memory.record(Overridden(at=bench.now(), trial=name, finding=dead.id, reason=override))
            if started.resumes:
                bench.show.note(f"going on with the pairs of {started.resumes}, which was cut off")
            pairs = Pairs(bench, name, arms, comparison, bench.memory.state.trials[name].launches)
            verdict, diagnosis = compare(bench, pairs)
            if verdict.decision == "keep":
                keep(bench, name, arms, baseline, verdict, pairs.accepted)
            else:
                end(bench, name, verdict, diagnosis, own_noise(pairs.accepted))
        except BaseException as error:
            close(bench, name, error)
            raise
        record_finding(bench, name, verdict, diagnosis, baseline)
        return bench.memory.state.trials[name]


def opening(bench: Bench, hypothesis: Hypothesis, comparison: Comparison) -> TrialStarted:
    """The event that a trial begins with."""
    return TrialStarted(
        at=bench.now(),
        trial=f"t{len(bench.memory.state.trials) + 1:04d}",
        hypothesis=hypothesis,
        baseline=comparison.version,
        profile=comparison.profile,
        mde=comparison.judge(()).mde,
        resumes=resumable(bench.memory.state, hypothesis, profile=comparison.profile),
    )


def close(bench: Bench, trial: str, error: BaseException) -> None:
    """End a trial that was cut off, if it began and has no end yet.

    The host is back already. A full disk may forbid to say so; then ``recover`` says it later.
    """
    if trial in bench.memory.state.unfinished:
        with contextlib.suppress(KnowngoodError):
            why = f"cut off: {error or type(error).__name__}"
            end(bench, trial, Verdict(decision="void", reason="cut_off", why=why), None)


def prepare(bench: Bench, baseline: Baseline, profile: str) -> Comparison:
    """Lay the rule, its history and the guards out."""
    config = bench.config
    return Comparison(
        version=baseline.version,
        objective=config.workloads[0].name,
        metric=config.objective.metric,
        direction=config.direction,
        worthwhile=config.worthwhile,
        profile=profile,
        noise=bench.memory.state.noise,
        ledger=bench.memory.state.ledger,
        recent=bench.memory.state.recent,
        limits=config.guards,
        others=tuple(workload.name for workload in config.workloads[1:]),
        lower_is_better=lambda metric: better_direction(metric) == "lower",
        memory=config.memory,
    )


def compare(bench: Bench, pairs: Pairs) -> tuple[Verdict, Diagnosis | None]:
    """Measure until the rule decides. A server or a load that fails is a void verdict, not an error."""
    try:
        return pairs.run(), None
    except (LaunchError, CheckFailed, LoadError) as error:
        found = error.facts.get("diagnosis")
        diagnosis = found if isinstance(found, Diagnosis) else None
        if pairs.arm == "candidate" and diagnosis is not None:
            diagnosis = blame(diagnosis, pairs.arms.changes.members, aliases=bench.engine.aliases)
        elif diagnosis is not None:
            # A baseline that fails says nothing about the change: no dead end comes of it.
            diagnosis = msgspec.structs.replace(diagnosis, hard=False)
        bench.memory.record(
            LaunchFailed(
                at=bench.now(),
                run=pairs.trial,
                arm=pairs.arm,
                index=pairs.index,
                why=error.message,
                diagnosis=diagnosis,
                log=keep_log(bench, pairs),
            )
        )
        why = error.message if pairs.arm == "candidate" else f"the baseline failed: {error.message}"
        return Verdict(decision="void", why=f"{why}. {error.hint}".rstrip(". "), launches=pairs.index), diagnosis


def keep_log(bench: Bench, pairs: Pairs) -> str:
    """Take the failed launch's log in as an artifact; empty if there is none."""
    log = bench.scratch / f"{pairs.current.name}.log"
    return bench.artifacts.put(log) if log.exists() else ""


def keep(
    bench: Bench, trial: str, arms: Arms, baseline: Baseline, verdict: Verdict, launches: Sequence[LaunchRecord]
) -> None:
    """Make the candidate the known-good state.

    The event that says so is the point of no return: killed before it, ``recover`` takes the edits back. The journal is
    told first, because a host that brings itself back knows nothing of events.
    """
    tx = f"{lab_prefix(bench)}{trial}-keep"
    files, originals = dict(baseline.files), dict(baseline.originals)
    for edit in arms.edits:
        before = bench.host.look(edit.path)
        originals.setdefault(edit.path, "" if before is None else bench.artifacts.put(before))
        files[edit.path] = "" if edit.after is None else bench.artifacts.put(edit.after)
    settings = arms.changes.settings()
    new = msgspec.structs.replace(
        baseline,
        version=baseline.version + 1,
        spec=arms.candidate,
        files=files,
        originals=originals,
        transactions=(*baseline.transactions, tx) if arms.edits else baseline.transactions,
        settings=baseline.settings | {one.name: " ".join(one.value.split()) for one in settings},
        setting_transactions=(*baseline.setting_transactions, tx) if settings else baseline.setting_transactions,
        pins=with_pins(baseline.pins, arms.changes.pins()),
        kept=(*baseline.kept, trial),
    )
    with settled(bench.host, tx, arms.edits, settings):
        end(bench, trial, verdict, None, own_noise(launches), baseline=new)


def with_pins(kept: Sequence[str], pins: Sequence[Pin]) -> tuple[str, ...]:
    """Requirements in force once pins are kept, too: of a package pinned twice the later one."""
    names = {pin.package for pin in pins}
    others = (one for one in kept if Pin(requirement=one).package not in names)
    return (*others, *(pin.requirement for pin in pins))


def end(
    bench: Bench,
    trial: str,
    verdict: Verdict,
    diagnosis: Diagnosis | None,
    noise: Sequence[float] = (),
    *,
    baseline: Baseline | None = None,
) -> None:
    """Record the end of a trial, with the A/A differences that it yielded."""
    bench.memory.record(
        TrialEnded(
            at=bench.now(),
            trial=trial,
            verdict=verdict,
            diagnosis=diagnosis,
            baseline=baseline,
            noise={bench.config.objective.metric: tuple(noise)} if noise else {},
        )
    )


def record_finding(bench: Bench, trial: str, verdict: Verdict, diagnosis: Diagnosis | None, baseline: Baseline) -> None:
    """Record what was learned, if anything."""
    finding = learn(
        number=len(bench.memory.state.findings) + 1,
        trial=trial,
        hypothesis=bench.memory.state.trials[trial].hypothesis,
        verdict=verdict,
        diagnosis=diagnosis,
        facts=baseline.facts,
    )
    if finding is not None:
        bench.memory.record(FindingRecorded(at=bench.now(), finding=finding))
