"""What the figures and sentences of a report say, computed from the state of a lab. Pure."""

import math
import statistics
from collections import Counter
from typing import Literal

import msgspec

from knowngood.config.lab import LabConfig, better_direction
from knowngood.model.evidence import LaunchRecord
from knowngood.reason.accuracy import judge_accuracy
from knowngood.reason.comparison import Comparison, split
from knowngood.reason.fold import LabState, counting, last_attempts
from knowngood.reason.guards import GuardResult
from knowngood.reason.records import BaselineRun, Trial

Outcome = Literal["keep", "revert", "inconclusive", "void", "undone", "running"]
OUTCOMES: tuple[Outcome, ...] = ("keep", "undone", "revert", "inconclusive", "void", "running")
Direction = Literal["higher", "lower"]
BOTH = 2


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One keep on the way from the original baseline to now.

    Attributes:
        trial: The trial that was kept.
        before: Gain over the original before it, as a ratio minus one.
        after: The same after it.
        low: The same, had its effect been the lower end of its interval.
        high: The same for the upper end.
    """

    trial: Trial
    before: float
    after: float
    low: float
    high: float


class PairDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of launches.

    Attributes:
        pair: Its number, from 0.
        attempt: How often it was repeated before.
        ln: ln ratio of candidate to baseline, above zero where the candidate is better.
        counts: False if it was thrown away.
    """

    pair: int
    attempt: int
    ln: float
    counts: bool


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the lab came from and where it stands.

    Attributes:
        gain: Product of the shrunk effects of the keeps in force, as a ratio minus one.
        original: Median objective of the original baseline's launches; None if they are not comparable.
        original_launches: How many these were.
        measured: Median objective of launches of the known-good state as it stands; None before the first.
        measured_launches: How many these were.
    """

    gain: float
    original: float | None
    original_launches: int
    measured: float | None
    measured_launches: int


def outcome(trial: Trial) -> Outcome:
    """One word for where a trial stands."""
    if trial.verdict is None:
        return "running"
    return "undone" if trial.undone else trial.verdict.decision


def kept_trials(state: LabState) -> tuple[Trial, ...]:
    """Trials whose change sets are in force, oldest first."""
    kept = state.baseline.kept if state.baseline else ()
    return tuple(state.trials[name] for name in kept if name in state.trials)


def kept_steps(state: LabState) -> tuple[Step, ...]:
    """The way from the original baseline to now, one keep after the other."""
    level = 1.0
    steps: list[Step] = []
    for trial in kept_trials(state):
        verdict = trial.verdict
        estimate = (verdict.estimate if verdict else None) or 0.0
        low = verdict.low if verdict and verdict.low is not None else estimate
        high = verdict.high if verdict and verdict.high is not None else estimate
        after = level * (1 + estimate)
        steps.append(
            Step(trial=trial, before=level - 1, after=after - 1, low=level * (1 + low) - 1, high=level * (1 + high) - 1)
        )
        level = after
    return tuple(steps)


def origin_run(state: LabState) -> BaselineRun | None:
    """The first measuring of what the lab file says, before any keep; None if there is none to compare with."""
    now = state.baseline
    if now is None:
        return None
    for run in state.runs.values():
        same = run.baseline.origin == now.origin and run.baseline.workloads == now.workloads
        if same and not run.baseline.kept and run.launches:
            return run
    return None


def progress(state: LabState) -> Progress:
    """Where the lab came from and where it stands."""
    first = origin_run(state)
    before = [launch.value for launch in first.launches] if first else []
    has_moved = state.baseline is not None and first is not None and state.baseline.kept
    now = [launch.value for launch in state.ledger] if has_moved else []
    steps = kept_steps(state)
    return Progress(
        gain=steps[-1].after if steps else 0.0,
        original=statistics.median(before) if before else None,
        original_launches=len(before),
        measured=statistics.median(now) if now else None,
        measured_launches=len(now),
    )


def counted(trial: Trial, launch: LaunchRecord) -> bool:
    """Whether a launch belongs to a pair that was not thrown away."""
    return launch.attempt >= Counter(repeat.pair for repeat in trial.repeats)[launch.pair]


def pairs(trial: Trial) -> tuple[tuple[LaunchRecord, LaunchRecord], ...]:
    """Whole pairs, thrown away ones included, as (baseline, candidate), in the order they were measured."""
    groups: dict[tuple[int, int], list[LaunchRecord]] = {}
    for launch in trial.launches:
        groups.setdefault((launch.pair, launch.attempt), []).append(launch)
    return tuple(split(*group) for group in groups.values() if len(group) == BOTH)


def pair_differences(trial: Trial, direction: Direction) -> tuple[PairDifference, ...]:
    """The ln ratio of every whole pair, oriented so that more is better."""
    sign = 1.0 if direction == "higher" else -1.0
    return tuple(
        PairDifference(
            pair=base.pair,
            attempt=base.attempt,
            ln=sign * math.log(mine.value / base.value),
            counts=counted(trial, base),
        )
        for base, mine in pairs(trial)
        if base.value > 0 and mine.value > 0
    )


def noise_spread(state: LabState) -> float:
    """Standard deviation of an A/A difference, robustly, in ln units; 0 if nothing is known."""
    from knowngood.reason.noise import noise_floor  # noqa: PLC0415  (kept beside its only use)

    return noise_floor(state.noise).scale if state.noise else 0.0


def guard_results(state: LabState, config: LabConfig, trial: Trial) -> tuple[GuardResult, ...]:
    """Judge the guards of a trial again, with the limits that the lab file gives today."""
    launches = compared(trial)
    if not launches:
        return ()
    accuracy = (
        (judge_accuracy(trial.accuracy, margin=config.accuracy_margin),) if trial.accuracy and config.accuracy else ()
    )
    return (*accuracy, *comparison_of(state, config, trial).guards(launches))


def suspicion(state: LabState, config: LabConfig, trial: Trial) -> str:
    """What speaks for corruption in a trial; empty for nothing."""
    return comparison_of(state, config, trial).suspicion(trial.launches)


def compared(trial: Trial) -> list[LaunchRecord]:
    """Launches of whole pairs that count, pair after pair."""
    return [launch for pair in pairs(trial) if counted(trial, pair[0]) for launch in pair]


def comparison_of(state: LabState, config: LabConfig, trial: Trial) -> Comparison:
    """What a trial compared, with the limits that the lab file gives today."""
    return Comparison(
        version=trial.baseline,
        objective=config.workloads[0].name,
        metric=config.objective.metric,
        direction=config.direction,
        worthwhile=config.worthwhile,
        profile=trial.profile,
        noise=state.noise,
        ledger=earlier_baselines(state, trial),
        limits=config.guards,
        others=tuple(workload.name for workload in config.workloads[1:]),
        lower_is_better=lambda metric: better_direction(metric) == "lower",
        memory=config.memory,
    )


def earlier_baselines(state: LabState, trial: Trial) -> tuple[LaunchRecord, ...]:
    """Launches of the baseline that a trial was tested against, from before it began."""
    runs = [last_attempts(run.launches) for run in state.runs.values() if run.baseline.version == trial.baseline]
    trials = [counting(one) for one in state.trials.values() if one.baseline == trial.baseline and one.id != trial.id]
    return tuple(
        launch
        for group in (*runs, *trials)
        for launch in group
        if launch.arm == "baseline" and launch.started_at < trial.started_at
    )


def is_comparable(state: LabState, trial: Trial) -> bool:
    """Whether a trial measured the same workloads and objective as today's baseline."""
    then = next((one.workloads for one in state.baselines if one.version == trial.baseline), None)
    return state.baseline is None or then is None or then == state.baseline.workloads
