"""Which member of a change set did it: subsets are launched until it is known, then what survives gets its trial.

The whole search holds the host's lease, and every launch brings the host back by itself. Each outcome is an event, so
an isolation that was cut off anywhere goes on with what it knows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from knowngood.errors import Refused, UsageError
from knowngood.flow.bench import Bench
from knowngood.flow.cost import launch_seconds
from knowngood.flow.journal import plan_edits
from knowngood.flow.managed import known_files
from knowngood.flow.preflight import plan_trial, require_baseline, require_known_good, require_no_drift
from knowngood.flow.probe import HOST_CAUSES, KNOWN, Probe
from knowngood.flow.trial import run_trial
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet
from knowngood.model.events import FindingRecorded, IsolationEnded, IsolationStarted, LaunchFailed, SubsetLaunched
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Culprit, Isolated, Kind, Outcome, Subset
from knowngood.reason.comparison import floor_of
from knowngood.reason.findings import change_key, learn_culprit
from knowngood.reason.isolate import Blame, CulpritSearch, Found, expected_launches
from knowngood.reason.items import Grain, Item, by_risk, signature, suspects, take_apart
from knowngood.reason.power import price
from knowngood.reason.profile import find_profile
from knowngood.reason.records import Isolation, Trial
from knowngood.reason.screen import Screen, Sorted, launches_for
from knowngood.reason.suspicion import failed_start, is_complete, newest_isolation, newest_trial

RUNS = 2
"""Runs of a launch that is measured for an effect; a third one if they differ too much to be noise."""
MOST_RUNS = 3
ODD = 3.0
"""Standard deviations of a launch by which two runs of it differ too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What an isolation would do and cost.

    Attributes:
        hypothesis: What is taken apart.
        kind: Whether a failure or an effect is looked for.
        items: What is launched or left out as a whole, the riskiest last.
        trial: The trial that is explained; None if there is none.
        trial_minutes: Expected minutes of the survivors' trial, if they change nothing.
        trial_most_minutes: Minutes of it at most.
        launches: Expected launches, if one item is the culprit; a suspect, if the failure's log names any.
        most_launches: Launches if two items are.
        minutes: Expected minutes.
        most_minutes: Minutes if two items are the culprits.
    """

    hypothesis: Hypothesis
    kind: Kind
    items: tuple[Item, ...]
    trial: Trial | None
    trial_minutes: float
    trial_most_minutes: float
    launches: float = 0.0
    most_launches: int = 0
    minutes: float = 0.0
    most_minutes: float = 0.0

    @property
    def failure(self) -> LaunchFailed | None:
        """The whole set's failure in its trial, unless that may have been the host's fault."""
        found = failed_start(self.trial) if self.trial else None
        cause = found.diagnosis.cause if found and found.diagnosis else ""
        return None if cause in HOST_CAUSES else found

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The items in lines for people."""
        return tuple(item.names for item in self.items)


def plan_isolation(
    bench: Bench, hypothesis: Hypothesis, *, kind: Kind | None = None, grain: Grain | None = None
) -> Outline:
    """Take a change set apart, and say what it costs to find the culprits; starts nothing.

    Args:
        bench: The lab's tools.
        hypothesis: Holds the change set.
        kind: What to look for; None takes it from the newest trial of the same set.
        grain: How finely patches are taken apart; None takes hunks for a failure and members for an effect: half a
            patch seldom runs, and a launch that fails measures nothing.

    Raises:
        Refused: The whole set does not apply.
        UsageError: There is no baseline, or nothing that could be left out.
    """
    baseline = require_baseline(bench)
    plan_trial(bench, hypothesis, baseline, override=KNOWN)
    trial = newest_trial(bench.memory.state, hypothesis.changes, baseline=baseline.version)
    ran = trial is not None and trial.verdict is not None and trial.verdict.decision != "void"
    chosen: Kind = kind or ("effect" if ran else "failure")
    known = known_files(bench)

    def applies(changes: ChangeSet) -> bool:
        try:
            plan_edits(bench.host, bench.config, changes, known)
        except Refused:
            return False
        return True

    fineness: Grain = grain or ("hunk" if chosen == "failure" else "member")
    items = take_apart(hypothesis.changes, fineness, applies=applies)
    if len(items) < 2:  # noqa: PLR2004  (nothing to part)
        hint = "a finer --by, or fewer groups, part it" if hypothesis.changes.members else "name one with changes"
        raise UsageError(f"{hypothesis.name} has nothing that could be left out", hint=hint)
    if chosen == "failure":
        items = by_risk(items, hypothesis.changes)
    return priced(bench, hypothesis, chosen, items, trial)


def priced(bench: Bench, hypothesis: Hypothesis, kind: Kind, items: tuple[Item, ...], trial: Trial | None) -> Outline:
    """Say what a search among items costs."""
    launch_s, run_s = launch_seconds(bench)
    config = bench.config
    floor = floor_of(bench.memory.state, config.objective.metric, workload=config.workloads[0].name)
    rule = find_profile(config.verdict.profile)
    cost = price(rule, floor, config.worthwhile, launch_s=launch_s, run_s=run_s)
    free = Outline(
        hypothesis=hypothesis,
        kind=kind,
        items=items,
        trial=trial,
        trial_minutes=cost.minutes,
        trial_most_minutes=cost.most_minutes,
    )
    if kind == "effect":
        launches = launches_for(len(items))
        minutes = launches * (launch_s + RUNS * run_s) / 60
        return replace(free, launches=launches, most_launches=launches, minutes=minutes, most_minutes=minutes)
    named = suspects(items, hypothesis.changes, free.failure.diagnosis if free.failure else None)
    first = 0 if free.failure else 1
    mean, most = (first + launches for launches in expected_launches(len(items), named))
    each_min = (launch_s + run_s) / 60
    return replace(free, launches=mean, most_launches=int(most), minutes=mean * each_min, most_minutes=most * each_min)


def isolate(bench: Bench, outline: Outline, *, confirm: bool = True) -> Isolation:
    """Launch subsets until the culprits are known, then try what is left; goes on where it was cut off.

    Args:
        bench: The lab's tools.
        outline: What to take apart, and how.
        confirm: Whether the survivors get a trial.

    Returns:
        The isolation with its result. The host is at known-good, which after a keep includes the survivors.

    Raises:
        Quarantined: Earlier work was cut off.
        Refused: The survivors are a known dead end.
        UsageError: Too many subsets do not run to say anything of an effect.
        RevertFailed: The host could not be brought back; it is quarantined.
    """
    with bench.host.lease(purpose=f"isolation of {outline.hypothesis.name} in {bench.config.root}"):
        require_known_good(bench)
        baseline = require_baseline(bench)
        require_no_drift(bench)
        name = begin(bench, outline, baseline)
        if bench.memory.state.isolations[name].result is None:
            probe = Probe(bench, name, outline.hypothesis, outline.items, baseline)
            find = find_failure if outline.kind == "failure" else find_effects
            finish(bench, probe, outline, *find(bench, probe, outline))
        done = bench.memory.state.isolations[name]
        if confirm and done.result is not None and not is_complete(bench.memory.state, done):
            run_trial(bench, done.result.rest, leased=True)
        return done


def begin(bench: Bench, outline: Outline, baseline: Baseline) -> str:
    """Open an isolation, or go on with one that was cut off; returns its id."""
    state = bench.memory.state
    before = newest_isolation(state, outline.hypothesis, kind=outline.kind, items=outline.names)
    if before is not None and is_complete(state, before):
        before = None
    if before is not None and before.result is not None:
        bench.show.note(f"{before.id} has found the culprits already")
        return before.id
    name = f"i{len(state.isolations) + 1:04d}"
    failure = outline.failure if outline.kind == "failure" else None
    bench.memory.record(
        IsolationStarted(
            at=bench.now(),
            isolation=name,
            hypothesis=outline.hypothesis,
            baseline=baseline.version,
            kind=outline.kind,
            items=outline.names,
            signature=signature(failure.why, failure.diagnosis) if failure else "",
            trial=outline.trial.id if outline.trial else "",
            resumes=before.id if before is not None else "",
        )
    )
    size = f"{len(outline.items)} items, about {outline.launches:.0f} launches, {outline.most_launches} at worst"
    bench.show.begin(f"isolating {outline.hypothesis.name}: {size}", expected_s=60 * outline.minutes)
    if before is not None:
        bench.show.note(f"going on with {len(before.launches)} launches of {before.id}, which was cut off")
    return name


Answer = tuple[tuple[Culprit, ...], tuple[Subset, ...], Subset]
"""Culprits; for each the items that show it by failing, or by being left out; and the items that survive."""


def find_failure(bench: Bench, probe: Probe, outline: Outline) -> Answer:
    """Launch subsets until it is known which items make the set fail."""

    def search() -> CulpritSearch:
        whole = probe.seen(probe.whole) or outline.failure
        named = suspects(outline.items, outline.hypothesis.changes, whole.diagnosis if whole else None)
        known: dict[Subset, Outcome] = {frozenset(one.subset): one.outcome for one in probe.counted}
        return CulpritSearch(len(outline.items), suspects=named, known=known)

    while (chosen := probe.whole if is_in_doubt(probe) else search().next) is not None:
        probe.launch(chosen, again=lambda _: False)
        made = len(probe.counted)
        bench.show.advance(f"{made} subsets launched", min(made / outline.launches, 0.99))
    found = search().found or Found(survivors=(), blames=())
    culprits = tuple(culprit_of(probe, outline, one) for one in found.blames)
    return culprits, tuple(frozenset(one.items) for one in found.blames), frozenset(found.survivors)


def is_in_doubt(probe: Probe) -> bool:
    """Whether the whole set has to be launched: it was not, or it failed in its trial and nothing fails any more."""
    if probe.seen(probe.whole) is not None:
        return False
    many = len(probe.counted) > math.log2(len(probe.items)) + 1
    return not probe.sought or (many and all(one.outcome == "passed" for one in probe.counted))


def culprit_of(probe: Probe, outline: Outline, found: Blame) -> Culprit:
    """What is to be said of an item that was left out."""
    shown = shown_by(probe, found)
    failure = outline.failure
    return Culprit(
        members=outline.items[found.items[0]].names,
        beside=tuple(name for number in found.items[1:] for name in outline.items[number].names),
        alone=found.outcome == "failed" and len(found.items) == 1,
        why=shown.why if shown else failure.why if failure else "",
    )


def shown_by(probe: Probe, found: Blame) -> SubsetLaunched | None:
    """The launch that shows a blame: of its very items, else the smallest failing one that holds the first."""
    failing = [one for one in probe.counted if one.outcome != "passed" and found.items[0] in one.subset]
    return min(
        failing, key=lambda one: (frozenset(one.subset) != frozenset(found.items), len(one.subset)), default=None
    )


def find_effects(bench: Bench, probe: Probe, outline: Outline) -> Answer:
    """Launch the rows of an orthogonal array, and find out which items help.

    Raises:
        UsageError: Too many subsets do not run.
    """
    config = bench.config
    floor = floor_of(bench.memory.state, config.objective.metric, workload=config.workloads[0].name)
    scale = floor.scale / math.sqrt(2)

    def again(values: Sequence[float]) -> bool:
        odd = len(values) == RUNS and abs(math.log(values[0] / values[1])) > ODD * scale
        return len(values) < RUNS or (odd and len(values) < MOST_RUNS)

    screen = Screen(
        len(outline.items),
        scale=scale,
        seed=int(change_key(outline.hypothesis.changes), 16),
        known=[probe.value(one) for one in probe.counted],
    )
    while (chosen := screen.next) is not None:
        screen.add(probe.value(probe.launch(chosen, again=again, steady=True)))
        bench.show.advance(f"{len(probe.counted)} subsets measured", len(probe.counted) / len(screen.rows))
    found = screen.found or Sorted(survivors=(), effects=())
    out = [one for one in found.effects if one.item not in found.survivors]
    culprits = tuple(
        Culprit(
            members=outline.items[one.item].names,
            estimate=math.expm1(one.estimate),
            low=math.expm1(one.low),
            high=math.expm1(one.high),
        )
        for one in out
    )
    return culprits, tuple(frozenset({one.item}) for one in out), frozenset(found.survivors)


def finish(
    bench: Bench,
    probe: Probe,
    outline: Outline,
    culprits: Sequence[Culprit],
    blamed: Sequence[Subset],
    survivors: Subset,
) -> None:
    """Record what was found, and what is learned from it."""
    asked = outline.hypothesis
    out = " and ".join(name for culprit in culprits for name in culprit.members)
    rest = msgspec.structs.replace(
        asked,
        name=f"{asked.name}-survivors",
        claim=f"{asked.claim} (without {out})" if out else asked.claim,
        changes=probe.part(survivors),
    )
    launches = len(probe.isolation.launches)
    result = Isolated(culprits=tuple(culprits), rest=rest, launches=launches)
    bench.memory.record(IsolationEnded(at=bench.now(), isolation=probe.name, result=result))
    baseline = bench.memory.state.baseline
    for culprit, items in zip(culprits, blamed, strict=True):
        shown = probe.seen(items) or (outline.failure if items == probe.whole else None)
        finding = learn_culprit(
            number=len(bench.memory.state.findings) + 1,
            evidence=(probe.name, *((outline.trial.id,) if outline.trial else ())),
            culprit=culprit,
            changes=probe.part(items),
            diagnosis=shown.diagnosis if shown else None,
            facts=baseline.facts if baseline else {},
        )
        if finding is not None:
            bench.memory.record(FindingRecorded(at=bench.now(), finding=finding))
