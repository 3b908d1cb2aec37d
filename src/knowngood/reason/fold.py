"""The state of a lab is a fold over its events; so is everything that is shown of it."""

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

import msgspec

from knowngood.model.baseline import Baseline
from knowngood.model.events import (
    AccuracyChecked,
    AnswersChecked,
    BaselineFailed,
    BaselineRecorded,
    BaselineStarted,
    CandidateProposed,
    Event,
    FindingRecorded,
    IsolationEnded,
    IsolationStarted,
    KeepUndone,
    LaunchFailed,
    LaunchMeasured,
    LaunchRepeated,
    Overridden,
    PairRepeated,
    RaceEnded,
    RaceStarted,
    Recovered,
    SubsetLaunched,
    TrialEnded,
    TrialStarted,
)
from knowngood.model.evidence import LaunchRecord
from knowngood.model.finding import Finding
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.verdict import Verdict
from knowngood.reason.findings import change_key
from knowngood.reason.records import BaselineRun, Isolation, RaceRun, Trial


class LabState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a lab knows.

    Attributes:
        version: Version of the last event.
        baseline: The known-good state; None before the first baseline.
        baselines: All of them, oldest first.
        runs: Id to measuring of a baseline, in order.
        trials: Id to trial, in order.
        checks: Id (``c0001``) to self-test or champion check, in order.
        isolations: Id to search for culprits, in order.
        races: Id to race, in order.
        findings: What was learned, oldest first.
        noise: A/A differences of ln(objective), oldest first.
        at: Unix time of the last event.
    """

    version: int = 0
    baseline: Baseline | None = None
    baselines: tuple[Baseline, ...] = ()
    runs: dict[str, BaselineRun] = {}
    trials: dict[str, Trial] = {}
    checks: dict[str, Trial] = {}
    isolations: dict[str, Isolation] = {}
    races: dict[str, RaceRun] = {}
    findings: tuple[Finding, ...] = ()
    noise: tuple[float, ...] = ()
    at: float = 0.0

    @property
    def everything(self) -> "tuple[BaselineRun | RaceRun | Trial, ...]":
        """All that was ever measured."""
        return (*self.runs.values(), *self.races.values(), *self.trials.values(), *self.checks.values())

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Ids of trials, checks, races and baseline runs that began and did not end."""
        return tuple(one.id for one in self.everything if one.ended_at is None)

    def launches(self, run: str) -> tuple[LaunchRecord, ...]:
        """Launches of a trial, a check, a race or a measuring of a baseline."""
        return next(one.launches for one in self.everything if one.id == run)

    @property
    def recent(self) -> tuple[LaunchRecord, ...]:
        """Launches of the newest trial, race or measuring of a baseline that has any."""
        found = (one.launches for one in self.everything if one.launches)
        return max(found, key=lambda launches: launches[-1].started_at, default=())

    @property
    def ledger(self) -> tuple[LaunchRecord, ...]:
        """Launches of the known-good state as it stands, oldest first.

        A winner's launches are never among them, nor are those that the host was not steady for.
        """
        if self.baseline is None:
            return ()
        here = self.baseline.version
        # A measuring that was cut off counts only if it was of the same thing: the lab file may have changed since.
        same = (self.baseline.spec, self.baseline.workloads)
        ours = (run for run in self.runs.values() if run.baseline.version == here)
        runs = (last_attempts(run.launches) for run in ours if (run.baseline.spec, run.baseline.workloads) == same)
        tests = (check for check in self.checks.values() if check.purpose == "self_test")
        trials = (counting(trial) for trial in (*self.trials.values(), *tests) if trial.baseline == here)
        races = (race.launches for race in self.races.values() if race.baseline == here)
        launches = [launch for group in (*runs, *trials, *races) for launch in group if launch.arm == "baseline"]
        # Who goes on with what was cut off took its launches over: they count once.
        return tuple(
            sorted({launch.started_at: launch for launch in launches}.values(), key=lambda one: one.started_at)
        )


def fold(events: Iterable[tuple[int, Event]], state: LabState | None = None) -> LabState:
    """Apply events in order.

    Args:
        events: Version and event.
        state: Where to begin; None is the empty lab.

    Returns:
        The state after the last event.
    """
    now = state or LabState()
    for version, event in events:
        now = msgspec.structs.replace(step(now, event), version=version, at=event.at)
    return now


def step(state: LabState, event: Event) -> LabState:
    """State after one event."""
    match event:
        case BaselineStarted():
            run = BaselineRun(id=event.run, baseline=event.baseline, planned=event.launches, started_at=event.at)
            return replace(state, runs={**state.runs, run.id: run})
        case BaselineRecorded():
            done = replace(state.runs[event.run], ended_at=event.at)
            moved = advance(replace(state, runs={**state.runs, done.id: done}), event.baseline)
            return replace(moved, noise=flatten(event.noise))
        case BaselineFailed():
            failed = replace(state.runs[event.run], ended_at=event.at)
            return replace(state, runs={**state.runs, failed.id: failed})
        case TrialStarted():
            return started(state, event)
        case LaunchMeasured() if event.run in state.runs:
            run = state.runs[event.run]
            return replace(state, runs={**state.runs, run.id: replace(run, launches=(*run.launches, event.launch))})
        case LaunchMeasured() if event.run in state.races:
            return on_race(state, event.run, history=(*state.races[event.run].history, event.launch))
        case LaunchMeasured():
            return on_trial(state, event.run, launches=(*find(state, event.run).launches, event.launch))
        case LaunchFailed() if event.run in state.races:
            return on_race(state, event.run, history=(*state.races[event.run].history, event))
        case LaunchFailed() if event.run in state.runs:
            return state
        case LaunchFailed():
            return on_trial(state, event.run, failures=(*find(state, event.run).failures, event))
        case PairRepeated():
            return on_trial(state, event.trial, repeats=(*find(state, event.trial).repeats, event))
        case AnswersChecked():
            return on_trial(state, event.trial, answers=event.check)
        case AccuracyChecked():
            return on_trial(state, event.trial, accuracy=event.check)
        case TrialEnded():
            ended = on_trial(state, event.trial, ended_at=event.at, verdict=event.verdict, diagnosis=event.diagnosis)
            grown = replace(ended, noise=(*ended.noise, *flatten(event.noise)))
            return grown if event.baseline is None else advance(grown, event.baseline)
        case FindingRecorded():
            return replace(state, findings=(*state.findings, event.finding))
        case KeepUndone():
            return advance(on_trial(state, event.trial, undone=True), event.baseline)
        case Recovered():
            return recovered(state, event)
        case Overridden():
            return state
        case RaceStarted() | CandidateProposed() | LaunchRepeated() | RaceEnded():
            return step_race(state, event)
        case IsolationStarted() | SubsetLaunched() | IsolationEnded():
            return replace(state, isolations={**state.isolations, event.isolation: isolation_after(state, event)})
        case _:
            assert_never(event)


def isolation_after(state: LabState, event: IsolationStarted | SubsetLaunched | IsolationEnded) -> Isolation:
    """An isolation after one event of it."""
    match event:
        case IsolationStarted():
            return Isolation(
                id=event.isolation,
                hypothesis=event.hypothesis,
                baseline=event.baseline,
                kind=event.kind,
                items=event.items,
                signature=event.signature,
                trial=event.trial,
                started_at=event.at,
                launches=state.isolations[event.resumes].launches if event.resumes else (),
            )
        case SubsetLaunched():
            now = state.isolations[event.isolation]
            return replace(now, launches=(*now.launches, event))
        case IsolationEnded():
            return replace(state.isolations[event.isolation], ended_at=event.at, result=event.result)
        case _:
            assert_never(event)


def step_race(state: LabState, event: RaceStarted | CandidateProposed | LaunchRepeated | RaceEnded) -> LabState:
    """State after an event that only races have."""
    match event:
        case RaceStarted():
            return replace(state, races={**state.races, event.race: race_of(state, event)})
        case CandidateProposed():
            race, one = state.races[event.race], event.hypothesis
            values = {**race.values, one.name: event.values}
            return on_race(state, event.race, candidates=(*race.candidates, one), values=values)
        case LaunchRepeated():
            return on_race(state, event.run, repeats=(*state.races[event.run].repeats, event))
        case RaceEnded():
            fields = ("why", "winner", "standings", "cut_off")
            return on_race(state, event.race, ended_at=event.at, **{name: getattr(event, name) for name in fields})


def race_of(state: LabState, event: RaceStarted) -> RaceRun:
    """A race at its beginning, with all that it takes over from the one that it goes on with."""
    before = state.races[event.resumes] if event.resumes else None
    return RaceRun(
        id=event.race,
        key=event.key,
        baseline=event.baseline,
        profile=event.profile,
        candidates=before.candidates if before else event.candidates,
        values=before.values if before else {},
        left_out=event.left_out,
        space=event.space,
        metrics=event.metrics,
        started_at=event.at,
        history=before.history if before else (),
    )


def counting(trial: Trial) -> tuple[LaunchRecord, ...]:
    """Launches of a trial without those of pairs that were thrown away."""
    repeats = Counter(repeat.pair for repeat in trial.repeats)
    return tuple(launch for launch in trial.launches if launch.attempt >= repeats[launch.pair])


def last_attempts(launches: tuple[LaunchRecord, ...]) -> tuple[LaunchRecord, ...]:
    """Launches without those whose pair was measured again."""
    last = {launch.pair: launch.attempt for launch in launches}
    return tuple(launch for launch in launches if launch.attempt == last[launch.pair])


def started(state: LabState, event: TrialStarted) -> LabState:
    """State once a trial, or a check, began."""
    trial = Trial(
        id=event.trial,
        hypothesis=event.hypothesis,
        baseline=event.baseline,
        profile=event.profile,
        mde=event.mde,
        started_at=event.at,
        launches=whole_pairs(state.trials[event.resumes]) if event.resumes else (),
        purpose=event.purpose,
    )
    if event.purpose != "trial":
        return replace(state, checks={**state.checks, trial.id: trial})
    return replace(state, trials={**state.trials, trial.id: trial})


def whole_pairs(trial: Trial) -> tuple[LaunchRecord, ...]:
    """Launches of a trial that count: both of a pair, and of its last attempt."""
    counted = counting(trial)
    return counted[: len(counted) // 2 * 2]


def resumable(state: LabState, hypothesis: Hypothesis, *, profile: str) -> str:
    """Find the trial to go on with: the newest one of the same change, if it was cut off against this very baseline.

    Going on is more honest than beginning anew: whoever cuts a trial off may have seen that it went badly.

    Args:
        state: What the lab knows.
        hypothesis: What is to be tested.
        profile: How much evidence is wanted.

    Returns:
        Its id; empty if there is none.
    """
    key = change_key(hypothesis.changes)
    for trial in reversed(state.trials.values()):
        if change_key(trial.hypothesis.changes) == key:
            here = state.baseline is not None and trial.baseline == state.baseline.version
            cut = trial.verdict is not None and trial.verdict.reason == "cut_off"
            return trial.id if here and cut and trial.profile == profile and whole_pairs(trial) else ""
    return ""


def same_race(state: LabState, key: str) -> RaceRun | None:
    """The newest race of the same line-up against the baseline as it stands; None if there is none."""
    here = state.baseline.version if state.baseline else 0
    races = (race for race in reversed(state.races.values()) if race.key == key and race.baseline == here)
    return next(races, None)


def confirmation(state: LabState, race: RaceRun) -> Trial | None:
    """The newest trial of a race's winner since the race ended; None if there is none."""
    if not race.winner or race.ended_at is None:
        return None
    key = change_key(race.candidate(race.winner).changes)
    for trial in reversed(state.trials.values()):
        if trial.started_at >= race.ended_at and change_key(trial.hypothesis.changes) == key:
            return trial
    return None


def recovered(state: LabState, event: Recovered) -> LabState:
    """Whatever was under way has ended without a verdict of its own."""
    runs = {k: replace(v, ended_at=event.at) if v.ended_at is None else v for k, v in state.runs.items()}
    cut = Verdict(decision="void", reason="cut_off", why="cut off; the host was brought back by recover")

    def close(trials: dict[str, Trial]) -> dict[str, Trial]:
        return {k: replace(v, ended_at=event.at, verdict=cut) if v.ended_at is None else v for k, v in trials.items()}

    races = {
        k: replace(v, ended_at=event.at, why=cut.why, cut_off=True) if v.ended_at is None else v
        for k, v in state.races.items()
    }
    return replace(state, runs=runs, races=races, trials=close(state.trials), checks=close(state.checks))


def advance(state: LabState, baseline: Baseline) -> LabState:
    """State with a new known-good."""
    return replace(state, baseline=baseline, baselines=(*state.baselines, baseline))


def find(state: LabState, trial: str) -> Trial:
    """The trial, or check, of an id."""
    return state.checks[trial] if trial in state.checks else state.trials[trial]


def on_trial(state: LabState, trial: str, **fields: object) -> LabState:
    """State with some fields of one trial, or check, replaced."""
    if trial in state.checks:
        return replace(state, checks={**state.checks, trial: replace(state.checks[trial], **fields)})
    return replace(state, trials={**state.trials, trial: replace(state.trials[trial], **fields)})


def on_race(state: LabState, race: str, **fields: object) -> LabState:
    """State with some fields of one race replaced."""
    return replace(state, races={**state.races, race: replace(state.races[race], **fields)})


def flatten(noise: dict[str, tuple[float, ...]]) -> tuple[float, ...]:
    """All A/A differences, whatever metric they are of: a lab has one objective."""
    return tuple(value for values in noise.values() for value in values)


replace = msgspec.structs.replace
