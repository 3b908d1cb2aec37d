"""Many candidates on one host: a race finds the most promising one, an ordinary trial confirms it or does not.

The host is held from the first launch to the verdict, and every launch brings it back by itself: between two launches
it is at known-good. What happened is in events, so that a race that was cut off goes on where it stopped.
"""

import contextlib
from collections.abc import Callable, Sequence

import msgspec

from knowngood.config.space import LineUp
from knowngood.errors import CheckFailed, KnowngoodError, LaunchError, LoadError, Refused, UsageError
from knowngood.flow.bench import Bench
from knowngood.flow.conditions import MAKE_STEADY, REPEATS
from knowngood.flow.cost import STOP_S, launch_seconds
from knowngood.flow.field import Field
from knowngood.flow.launch import Slot, measure_launch
from knowngood.flow.preflight import lab_prefix, require_baseline, require_known_good, require_no_drift
from knowngood.flow.search import Search
from knowngood.flow.trial import prepare, run_trial
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import (
    CandidateProposed,
    FindingRecorded,
    LaunchFailed,
    LaunchMeasured,
    LaunchRepeated,
    RaceEnded,
    RaceStarted,
)
from knowngood.model.evidence import LaunchRecord
from knowngood.model.race import Standing
from knowngood.model.verdict import Verdict
from knowngood.reason.blame import blame
from knowngood.reason.comparison import Comparison, resolution
from knowngood.reason.conditions import unlike, watched
from knowngood.reason.findings import learn
from knowngood.reason.fold import confirmation, same_race
from knowngood.reason.pareto import usual_metrics
from knowngood.reason.race import BASELINE, Race
from knowngood.reason.records import RaceRun, Trial

MINUTE_S = 60.0


def run_race(
    bench: Bench, line_up: LineUp, *, metrics: tuple[str, str] | None = None, profile: str = ""
) -> tuple[RaceRun, Trial | None]:
    """Race candidates, then try the winner.

    Args:
        bench: The lab's tools.
        line_up: Who races.
        metrics: The two metrics of the Pareto view; None means the objective and a usual one against it.
        profile: How much evidence is wanted of the confirming trial; empty means what the lab file says.

    Returns:
        The race, and the trial of its winner; None if nobody won. The host is at known-good.

    Raises:
        Refused: All candidates are known dead ends, or one cannot be applied; nothing was changed.
        UsageError: Two candidates are the same change, or Optuna is needed and missing.
        LaunchError: The baseline did not come up.
        CheckFailed: Foreign load stayed unlike that of the other launches.
        Quarantined: Earlier work was cut off.
        RevertFailed: The host could not be brought back; it is quarantined.
    """
    with bench.host.lease(purpose=f"race in {bench.config.root}"):
        require_known_good(bench)
        baseline = require_baseline(bench)
        require_no_drift(bench)
        field = Field(bench, baseline, line_up)
        run = same_race(bench.memory.state, field.key)
        if run is None or not is_unconfirmed(bench, run):
            race = begin(bench, field, run, metrics=metrics, profile=profile or bench.config.verdict.profile)
            try:
                Racing(bench, race, field).run()
            except BaseException as error:
                close(bench, race, error)
                raise
            run = bench.memory.state.races[race]
        return run, confirm(bench, run) if run.winner else None


def begin(bench: Bench, field: Field, before: RaceRun | None, *, metrics: tuple[str, str] | None, profile: str) -> str:
    """Record that a race begins, or goes on with one that was cut off; returns its id."""
    config = bench.config
    race = f"r{len(bench.memory.state.races) + 1:04d}"
    resumes = before.id if before is not None and before.cut_off and before.history else ""
    bench.memory.record(
        RaceStarted(
            at=bench.now(),
            race=race,
            key=field.key,
            baseline=field.baseline.version,
            profile=profile,
            candidates=field.candidates,
            left_out=field.left_out,
            space=field.search.space if field.search else None,
            metrics=metrics or usual_metrics(config.objective.metric, lower_is_better=config.direction == "lower"),
            resumes=resumes,
        )
    )
    if resumes:
        bench.show.note(f"going on with the launches of {resumes}, which was cut off")
    return race


def is_unconfirmed(bench: Bench, race: RaceRun) -> bool:
    """Whether a race has a winner whose trial was never finished."""
    trial = confirmation(bench.memory.state, race)
    return bool(race.winner) and (trial is None or (trial.verdict is not None and trial.verdict.reason == "cut_off"))


def confirm(bench: Bench, race: RaceRun) -> Trial:
    """Try the winner, as if nothing were known of it."""
    bench.show.note(f"{race.winner} won; now the trial that has to prove it")
    return run_trial(bench, race.candidate(race.winner), profile=race.profile, leased=True)


def close(bench: Bench, race: str, error: BaseException) -> None:
    """End a race that was cut off. A full disk may forbid to say so; then ``recover`` says it later."""
    if race in bench.memory.state.unfinished:
        with contextlib.suppress(KnowngoodError):
            why = f"cut off: {error or type(error).__name__}"
            bench.memory.record(RaceEnded(at=bench.now(), race=race, why=why, cut_off=True))


class Racing:
    """The launches of one race.

    Args:
        bench: The lab's tools.
        race: Id of the race, which has begun.
        field: Its candidates.
    """

    def __init__(self, bench: Bench, race: str, field: Field) -> None:
        self.bench = bench
        self.race = race
        self.field = field
        self.comparison: Comparison = prepare(bench, field.baseline, self.record.profile)
        self.seen: list[LaunchRecord] = []
        self.block = 0
        failed = {one.candidate for one in self.record.failures}
        for one in self.record.candidates:
            if one.name not in field.arms and one.name not in failed:
                field.plan(one)

    @property
    def record(self) -> RaceRun:
        """The race as it is recorded."""
        return self.bench.memory.state.races[self.race]

    @property
    def index(self) -> int:
        """Number of the next launch."""
        found = (*self.record.history, *(repeat.launch for repeat in self.record.repeats))
        return 1 + max((one.index for one in found), default=-1)

    def run(self) -> None:
        """Launch until there is a winner, or until nobody is left."""
        self.announce()
        search = self.field.search
        while not (rule := self.rule()).is_over:
            self.tell(rule)
            name = rule.next
            if name is not None:
                self.launch(rule, name)
            elif search is not None:
                self.propose(search, rule)
        self.tell(rule)
        standings = rule.standings()
        self.bench.memory.record(
            RaceEnded(
                at=self.bench.now(),
                race=self.race,
                winner=rule.winner,
                why=conclusion(standings),
                standings=standings,
            )
        )

    def rule(self) -> Race:
        """The race's rule, fed with all that was measured."""
        run, compared = self.record, self.comparison
        race = Race(
            [one.name for one in run.candidates],
            at=run.launches[0].started_at if run.launches else run.started_at,
            direction=compared.direction,
            noise=compared.noise,
            ledger=[(launch.started_at, launch.value) for launch in self.ledger],
            resolution=resolution((*compared.recent, *run.launches), compared.metric, workload=compared.objective),
            is_open=self.field.search is not None and self.may_propose(),
        )
        for one in run.history:
            if isinstance(one, LaunchRecord):
                race.add(one.candidate, one.value, at=one.started_at)
            elif one.candidate:
                race.drop(one.candidate)
        return race

    @property
    def ledger(self) -> tuple[LaunchRecord, ...]:
        """Baseline launches from before the race."""
        own = {launch.started_at for launch in self.record.launches}
        return tuple(launch for launch in self.comparison.ledger if launch.started_at not in own)

    def may_propose(self) -> bool:
        """Whether a further proposal is within the budget, and there is anything left to propose."""
        run, space = self.record, self.record.space
        if space is None or self.field.search is None or self.field.search.is_exhausted:
            return False
        launch_s, run_s = launch_seconds(self.bench)
        spent_s = sum(one.ready_s + STOP_S + sum(each.seconds for each in one.runs) for one in run.launches)
        spent_s += (launch_s + run_s) * len(run.failures)
        is_late = bool(space.minutes) and spent_s >= MINUTE_S * space.minutes
        return len(run.values) < space.launches and not is_late

    def propose(self, search: Search, rule: Race) -> None:
        """Let the space yield one more candidate, if it has one."""
        run = self.record
        found = search.next(run, {one.name: rule.effect(one.name) for one in run.candidates})
        if found is None:
            return
        hypothesis, values = found
        self.bench.memory.record(
            CandidateProposed(at=self.bench.now(), race=self.race, hypothesis=hypothesis, values=values)
        )
        try:
            self.field.plan(hypothesis)
        except (Refused, UsageError) as error:
            self.fail(hypothesis.name, error)

    def launch(self, rule: Race, name: str) -> None:
        """Launch a candidate or the baseline, and record what came out.

        Raises:
            LaunchError: The baseline did not come up.
            CheckFailed: The host stayed unlike that of the other launches.
        """
        why = ""
        for attempt in range(REPEATS + 1):
            try:
                launch = self.measure(
                    name, rule.block, attempt, again=lambda values: rule.needs_verification(name, values)
                )
            except (LaunchError, CheckFailed, LoadError, Refused) as error:
                if name == BASELINE:
                    raise
                self.fail(name, error)
                return
            # Candidates may set what can be set.
            if why := unlike(launch, self.seen, watched(self.bench.config.host_limits, sets_something=True)):
                self.repeat(launch, why)
                continue
            self.seen.append(launch)
            failing = self.failing(launch)
            if failing is not None:
                self.fail(name, failing)
            else:
                self.take(launch)
            return
        raise CheckFailed(
            f"the host stayed unlike that of the launches before, {REPEATS + 1} times: {why}", hint=MAKE_STEADY
        )

    def measure(self, name: str, block: int, attempt: int, *, again: Callable[[Sequence[float]], bool]) -> LaunchRecord:
        """Measure one launch."""
        slot = Slot(
            lab=lab_prefix(self.bench),
            run=self.race,
            arm="baseline" if name == BASELINE else "candidate",
            index=self.index,
            pair=block,
            attempt=attempt,
        )
        arms = self.field.arms[name]
        launch = measure_launch(self.bench, arms, slot, again=again, on_measured=lambda _server, _launch: None)
        return msgspec.structs.replace(launch, candidate=name)

    def take(self, launch: LaunchRecord) -> None:
        """Record a launch that counts."""
        self.bench.memory.record(LaunchMeasured(at=self.bench.now(), run=self.race, launch=launch))
        metric = self.bench.config.objective.metric
        self.bench.show.note(
            f"launch {launch.index + 1} ({launch.candidate or 'baseline'}): {metric} {launch.value:.4g}"
        )

    def repeat(self, launch: LaunchRecord, why: str) -> None:
        """Record a launch that does not count."""
        self.bench.memory.record(LaunchRepeated(at=self.bench.now(), run=self.race, launch=launch, why=why))
        self.bench.show.note(f"launch {launch.index + 1} does not count: {why}")

    def failing(self, launch: LaunchRecord) -> CheckFailed | None:
        """Why a candidate cannot win whose requests fail; None if all is well."""
        name = launch.candidate
        if name == BASELINE:
            return None
        known = [one for one in self.record.launches if one.candidate in (BASELINE, name)]
        found = self.comparison.errors([*known, launch])
        return CheckFailed(f"guard {found.name}: {found.why}") if found.state == "fail" else None

    def fail(self, name: str, error: KnowngoodError) -> None:
        """Take a candidate out that cannot be measured, with the root cause and what is learned from it."""
        candidate, index = self.record.candidate(name), self.index
        found = error.facts.get("diagnosis")
        diagnosis = blame(found, candidate.changes.members) if isinstance(found, Diagnosis) else None
        log = self.bench.scratch / f"{lab_prefix(self.bench)}{self.race}-{index:02d}-candidate.log"
        self.bench.memory.record(
            LaunchFailed(
                at=self.bench.now(),
                run=self.race,
                arm="candidate",
                index=index,
                why=error.message,
                diagnosis=diagnosis,
                log=self.bench.artifacts.put(log) if log.exists() else "",
                candidate=name,
            )
        )
        self.bench.show.note(f"{name} drops out: {error.message}")
        finding = learn(
            number=len(self.bench.memory.state.findings) + 1,
            trial=self.race,
            hypothesis=candidate,
            verdict=Verdict(decision="void"),
            diagnosis=diagnosis,
            facts=self.field.baseline.facts,
        )
        if finding is not None:
            self.bench.memory.record(FindingRecorded(at=self.bench.now(), finding=finding))

    def announce(self) -> None:
        """Say what is going to happen, and what it will take."""
        cost = self.field.price(self.record.profile)
        self.bench.show.begin(
            f"{self.race}: {cost.candidates} candidates, then a trial of the winner: about {cost.launches:.0f} "
            f"launches, at most {cost.most_launches}, which take {cost.most_minutes:.0f} min",
            expected_s=MINUTE_S * cost.minutes,
        )
        for name, why in self.record.left_out.items():
            self.bench.show.note(f"{name} is left out: {why}")

    def tell(self, rule: Race) -> None:
        """Show how far the race is, and after each block who is still in it."""
        if rule.block != self.block:
            self.block = rule.block
            ahead = f"; {rule.leader} leads" if rule.racing else ""
            self.bench.show.note(
                f"after block {rule.block}: {len(rule.racing)} of {len(self.record.candidates)} go on{ahead}"
            )


def conclusion(standings: Sequence[Standing]) -> str:
    """How a race ended, in one sentence."""
    first = standings[0] if standings else None
    if first is not None and first.state == "winner" and first.estimate is not None:
        return f"{first.name} leads with {first.estimate:+.1%} after {first.launches} launches"
    failed = sum(one.state == "failed" for one in standings)
    return f"nobody won: {failed} failed, {len(standings) - failed} look no better than the baseline"
