"""One comparison of a candidate with its baseline: the rule and the guards, fed with the launches that count.

The rule is rebuilt from the launches each time, so that a launch that does not count was simply never there.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from knowngood.model.evidence import Arm, LaunchRecord, RunRecord
from knowngood.model.verdict import Verdict
from knowngood.reason.fold import LabState
from knowngood.reason.guards import GuardResult, judge_errors, judge_loss, judge_memory, suspect_speculation
from knowngood.reason.judge import Judge
from knowngood.reason.ledger import since_last_step
from knowngood.reason.noise import Noise, noise_floor, noise_from_launches, rate_resolution


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial compares, and by which rule.

    Attributes:
        version: Version of the baseline.
        objective: Name of the objective's workload.
        metric: The metric that decides.
        direction: ``higher`` or ``lower`` is better.
        worthwhile: Smallest effect worth keeping, as a ratio minus one.
        profile: Name of the rule's profile.
        noise: A/A differences of ln(metric).
        ledger: Earlier launches of the same baseline, oldest first.
        limits: Guard metric to largest loss, as a ratio minus one; ``error_rate`` to an absolute rate.
        others: Names of the guard workloads.
        lower_is_better: Whether less of a guard metric is better.
        recent: Newest launches of whatever was measured before; they tell how many requests a run has.
        memory: Largest growth of the server's memory, as a ratio minus one; None does not judge it.
    """

    version: int
    objective: str
    metric: str
    direction: Literal["higher", "lower"]
    worthwhile: float
    profile: str
    noise: tuple[float, ...]
    ledger: tuple[LaunchRecord, ...]
    limits: dict[str, float]
    others: tuple[str, ...]
    lower_is_better: Callable[[str], bool]
    recent: tuple[LaunchRecord, ...] = ()
    memory: float | None = None

    @property
    def most_launches(self) -> int:
        """Launches after which the rule has decided at the latest."""
        return 2 * self.judge(()).profile.pairs

    def judge(self, launches: Iterable[LaunchRecord], *, half_pair_counts: bool = True) -> Judge:
        """The rule, fed with launches.

        Args:
            launches: Those that count, in order; the last may be half a pair.
            half_pair_counts: Whether a lone launch of a pair may end the trial.
        """
        launches = tuple(launches)
        resolved = resolution((*self.recent, *launches), self.metric, workload=self.objective)
        known = [(launch.started_at, launch.value) for launch in self.ledger]
        judge = Judge(
            profile=self.profile,
            direction=self.direction,
            worthwhile=self.worthwhile,
            noise=self.noise,
            ledger=since_last_step(known, scale=noise_floor(self.noise, resolution=resolved).scale),
            half_pair_counts=half_pair_counts,
            resolution=resolved,
        )
        for launch in launches:
            judge.add(arm=launch.arm, value=launch.value, at=launch.started_at, verified=True)
        return judge

    def verdict(self, launches: Sequence[LaunchRecord]) -> Verdict | None:
        """The rule's answer to whole pairs, or to pairs and a lone launch that it stopped at."""
        return self.judge(launches).verdict

    def next_arm(self, launches: Sequence[LaunchRecord], *, half_pair_counts: bool) -> Arm | None:
        """Which arm to launch next; None if the rule has decided."""
        return self.judge(launches, half_pair_counts=half_pair_counts).next_arm

    def needs_verification(
        self, launches: Sequence[LaunchRecord], arm: Arm, values: Sequence[float], *, at: float
    ) -> bool:
        """Whether the objective must be run once more in the launch under way, given its values so far."""
        judge = self.judge(launches)
        for value in values:
            judge.add(arm=arm, value=value, at=at)
            if not judge.same_launch:
                return False
        return True

    def reject(self, launches: Sequence[LaunchRecord], guard: GuardResult) -> Verdict:
        """The verdict on a candidate that a guard stops."""
        judge = self.judge(launches)
        estimate, low, high = judge.effect
        return Verdict(
            decision="revert",
            reason="guard",
            why=f"guard {guard.name}: {guard.why}",
            estimate=estimate,
            low=low,
            high=high,
            pairs=len(launches) // 2,
            launches=len(launches),
            mde=judge.mde,
        )

    def guards(self, launches: Sequence[LaunchRecord]) -> tuple[GuardResult, ...]:
        """Judge every guard on the pairs measured so far."""
        pairs = [split(launches[at], launches[at + 1]) for at in range(0, len(launches) - 1, 2)]
        found = [self.errors(launches)] if "error_rate" in self.limits else []
        found += [
            self.loss(pairs, self.objective, metric, margin)
            for metric, margin in self.limits.items()
            if metric != "error_rate"
        ]
        found += [self.loss(pairs, workload, self.metric, self.worthwhile) for workload in self.others]
        return (*found, *self.memories(launches))

    def memories(self, launches: Sequence[LaunchRecord]) -> tuple[GuardResult, ...]:
        """Judge the memory of the server, and what it holds of accelerators where that is known."""
        if self.memory is None:
            return ()
        kinds: tuple[tuple[str, Callable[[LaunchRecord], float | None]], ...] = (
            ("server memory", lambda launch: launch.rss_mb),
            ("accelerator memory", lambda launch: launch.gpu_mb),
        )
        found: list[GuardResult] = []
        for name, measure in kinds:
            mine = values_of(launches, "candidate", measure)
            base = values_of((*self.ledger, *launches), "baseline", measure)
            found += [judge_memory(name, mine, base, margin=self.memory)] if mine and base else []
        return tuple(found)

    def suspicion(self, launches: Sequence[LaunchRecord]) -> str:
        """What speaks for corruption though the numbers may be good; empty for nothing."""

        def measure(launch: LaunchRecord) -> float | None:
            return launch.acceptance_length

        base = values_of((*self.ledger, *launches), "baseline", measure)
        return suspect_speculation(values_of(launches, "candidate", measure), base)

    def errors(self, launches: Sequence[LaunchRecord]) -> GuardResult:
        """Judge failed requests, all workloads together."""
        mine = [run for launch in launches if launch.arm == "candidate" for run in launch.runs]
        base = [run for launch in (*self.ledger, *launches) if launch.arm == "baseline" for run in launch.runs]
        return judge_errors(
            errors=sum(run.errors for run in mine),
            requests=sum(run.requests for run in mine),
            base_errors=sum(run.errors for run in base),
            base_requests=sum(run.requests for run in base),
            limit=self.limits["error_rate"],
        )

    def loss(
        self, pairs: Sequence[tuple[LaunchRecord, LaunchRecord]], workload: str, metric: str, margin: float
    ) -> GuardResult:
        """Judge one metric of one workload."""
        sign = 1.0 if self.lower_is_better(metric) else -1.0

        def measure(launch: LaunchRecord) -> float | None:
            return median_metric(launch.runs, workload, metric)

        values = [(measure(base), measure(mine)) for base, mine in pairs]
        losses = [
            sign * math.log(mine / base) if mine > 0 else math.inf
            for base, mine in values
            if base is not None and mine is not None and base > 0 and (mine > 0 or (mine == 0 and sign < 0))
        ]
        known = [value for launch in self.ledger if (value := measure(launch)) is not None and value > 0]
        return judge_loss(f"{workload} {metric}", losses, margin=margin, history=noise_from_launches(known))


def resolution(launches: Sequence[LaunchRecord], metric: str, *, workload: str) -> float:
    """How finely launches resolve a metric, in ln units of a pair: rates by requests per run, others without limit."""
    if not metric.endswith("_s"):
        return 0.0
    return rate_resolution([run.requests for launch in launches for run in launch.runs if run.workload == workload])


def floor_of(state: LabState, metric: str, *, workload: str) -> Noise:
    """Noise floor of a lab as its next trial will see it."""
    return noise_floor(state.noise, resolution=resolution(state.recent, metric, workload=workload))


def values_of(
    launches: Sequence[LaunchRecord], arm: Arm, measure: Callable[[LaunchRecord], float | None]
) -> tuple[float, ...]:
    """What an arm's launches show, in order; what is not known is left out."""
    found = (measure(launch) for launch in launches if launch.arm == arm)
    return tuple(value for value in found if value)


def split(one: LaunchRecord, other: LaunchRecord) -> tuple[LaunchRecord, LaunchRecord]:
    """Order a pair as (baseline, candidate)."""
    return (one, other) if one.arm == "baseline" else (other, one)


def median_metric(runs: Sequence[RunRecord], workload: str, metric: str) -> float | None:
    """Median of a metric over a launch's runs of one workload; None if none has it."""
    values = [run.metrics[metric] for run in runs if run.workload == workload and metric in run.metrics]
    return statistics.median(values) if values else None


def all_noise(launches: Sequence[LaunchRecord]) -> tuple[float, ...]:
    """A/A differences of a trial whose arms are the same thing: every pair is one."""
    return noise_from_launches([launch.value for launch in launches])


def own_noise(launches: Sequence[LaunchRecord]) -> tuple[float, ...]:
    """A/A differences that a trial yields by itself: in C B B C, the two baseline launches stand side by side."""
    base = [launch for launch in launches if launch.arm == "baseline"]
    found: list[float] = []
    for one, other in pairwise(base):
        if other.index == one.index + 1:
            found += noise_from_launches([one.value, other.value])
    return tuple(found)
