"""One trial: tells which arm to launch next, takes its value, and says when there is a verdict."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from knowngood.errors import UsageError
from knowngood.model.evidence import Arm
from knowngood.model.verdict import Decision, Reason, Verdict
from knowngood.reason.decide import LEVEL, Report, Rule, Trials
from knowngood.reason.ledger import trim_ledger
from knowngood.reason.noise import noise_floor
from knowngood.reason.power import mde
from knowngood.reason.profile import Profile, find_profile

VERIFYING_RUNS = 3
"""Runs of a launch whose first one was suspiciously low; their median counts."""


_MOST = 700.0  # exp of more is infinite

_IN_WORDS = {
    "better": "proven better",
    "regression": "worse",
    "not_worthwhile": "not worthwhile",
    "undecided": "not proven, and unlikely to be with more launches",
}


class Judge:
    """Verdict on one candidate against one baseline.

    It is pure: the same values give the same answers, so it can be built anew from the accepted launches at any time.

    Example:
        >>> judge = Judge(worthwhile=0.02, noise=[0.011, -0.006, 0.002, 0.008])
        >>> while judge.verdict is None:
        ...     judge.add(arm=judge.next_arm, value=measure(judge.next_arm), at=time.monotonic())

    Args:
        profile: ``quick``, ``standard``, ``thorough`` or ``explore``.
        direction: Whether more or less of the metric is better.
        worthwhile: Smallest effect worth having, as a ratio minus one.
        noise: ln differences of adjacent baseline launches on this machine (see ``noise_from_launches``). With fewer
            than four a pair spread of 5 % fills the gap; with none, the variance comes from the trial's pairs alone.
        ledger: (seconds, value) of recent baseline launches of the same configuration, on the clock of ``at``. Of those
            at most five, not older than two hours, are used, and only to stop hopeless trials sooner.
        half_pair_counts: Whether a trial may stop at the first launch of a pair. Where a pair is accepted or repeated
            as a whole, that launch may not count yet.
        resolution: Standard deviation of a pair's ln difference that comes from how runs are measured (see
            ``rate_resolution``); history that looks quieter is not believed.

    Raises:
        UsageError: An argument makes no sense.
    """

    def __init__(
        self,
        profile: str = "standard",
        direction: str = "higher",
        worthwhile: float = 0.02,
        noise: Sequence[float] = (),
        ledger: Sequence[tuple[float, float]] = (),
        *,
        half_pair_counts: bool = True,
        resolution: float = 0.0,
    ) -> None:
        if direction not in ("higher", "lower"):
            raise UsageError(f"direction is {direction!r}", hint="use 'higher' or 'lower'")
        if not 0 < worthwhile < math.inf:
            raise UsageError(f"worthwhile is {worthwhile}", hint="give a ratio above 0, such as 0.02 for 2 %")
        self.profile: Profile = find_profile(profile)
        self._sign = 1.0 if direction == "higher" else -1.0
        self._worthwhile = worthwhile
        self._noise = noise_floor(noise, resolution=resolution)
        self._ledger = tuple((_finite(at), self._score(value)) for at, value in ledger)
        self._half_pair_counts = half_pair_counts
        self._trials: Trials | None = None
        self._runs: list[tuple[float, float]] = []
        self._verdict: Verdict | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None as long as more launches are needed."""
        return self._verdict

    @property
    def next_arm(self) -> Arm | None:
        """Arm whose value is wanted next; None when there is a verdict."""
        return None if self._verdict else self._turn

    @property
    def _turn(self) -> Arm:
        return "candidate" if self._trials is None or self._trials.next_is_candidate else "baseline"

    @property
    def same_launch(self) -> bool:
        """True if the next value is a further run of the launch just measured, whose first run was suspiciously low."""
        return bool(self._runs)

    @property
    def mde(self) -> float:
        """Smallest effect that this design would keep with 80 % probability, as a ratio minus one."""
        return mde(self.profile, self._noise, self._worthwhile)

    @property
    def effect(self) -> tuple[float, float, float] | tuple[None, None, None]:
        """Estimate so far and the ends of its interval, as ratios minus one; None before both arms have been seen."""
        if self._trials is None or not self._trials.is_estimable:
            return None, None, None
        return _ratios(self._trials.report(np.array([False])))

    def add(self, *, arm: Arm, value: float, at: float, verified: bool = False) -> None:
        """Take a value in.

        A verdict reached at the first launch of a pair is taken back if the pair is finished all the same.

        Args:
            arm: Arm that was measured; must be ``next_arm``.
            value: The metric as measured, above 0.
            at: Start of the launch or run, in seconds on one clock.
            verified: The value is final, such as the median of a launch's runs: no further run of it is asked for.

        Raises:
            UsageError: The value is not above 0, the arm is not the one wanted, or there is a verdict already.
        """
        if self._verdict and self._verdict.launches % 2 == 0:
            raise UsageError("a value was added to a trial that has its verdict", hint="stop when next_arm is None")
        if arm != self._turn:
            raise UsageError(
                f"a value of the {arm} was added, but it is the {self._turn}'s turn",
                hint="ask next_arm before each launch; the order is C B B C",
            )
        score, started_at = self._score(value), _finite(at)
        trials = self._trials = self._trials or self._begin(started_at)
        self._runs.append((started_at, score))
        if not verified and self._wants_another_run(trials):
            return
        launch = score if verified else statistics.median(score for _, score in self._runs)
        look = trials.add(np.array([launch]), at=self._runs[0][0])
        self._runs.clear()
        is_over = bool(look.stop[0]) and (self._half_pair_counts or trials.launches % 2 == 0)
        self._verdict = self._conclude(trials, keep=bool(look.keep[0])) if look.keep[0] or is_over else None

    def _wants_another_run(self, trials: Trials) -> bool:
        is_suspicious = len(self._runs) > 1 or self._runs[0][1] < trials.suspicious_below()[0]
        return is_suspicious and len(self._runs) < VERIFYING_RUNS

    def _begin(self, at: float) -> Trials:
        rule = Rule(profile=self.profile, worthwhile=math.log1p(self._worthwhile), freedom=self._noise.freedom)
        ledger = trim_ledger(self._ledger, now=at)
        return Trials(rule, np.array([self._noise.scale]), [(then, np.array([score])) for then, score in ledger])

    def _conclude(self, trials: Trials, *, keep: bool) -> Verdict:
        estimate, low, high = _ratios(trials.report(np.array([keep])))
        decision, reason = _label(keep=keep, high=high, worthwhile=self._worthwhile)
        why = f"{_IN_WORDS[reason]}: {estimate:+.1%} ({low:+.1%} to {high:+.1%})"
        if reason == "undecided":
            why += f"; this design finds effects from {self.mde:+.1%}"
        return Verdict(
            decision=decision,
            reason=reason,
            why=why,
            estimate=estimate,
            low=low,
            high=high,
            level=LEVEL,
            pairs=trials.pairs.shape[1],
            launches=trials.launches,
            mde=self.mde,
        )

    def _score(self, value: float) -> float:
        if not (math.isfinite(value) and value > 0):
            raise UsageError(
                f"a measured value is {value}", hint="values must be above 0: a failed launch is no value, leave it out"
            )
        return self._sign * math.log(value)


def _ratios(report: Report) -> tuple[float, float, float]:
    estimate, low, high = (math.expm1(min(float(bound[0]), _MOST)) for bound in report)
    return estimate, low, high


def _label(*, keep: bool, high: float, worthwhile: float) -> tuple[Decision, Reason]:
    if keep:
        return "keep", "better"
    if high < 0:
        return "revert", "regression"
    if high < worthwhile:
        return "revert", "not_worthwhile"
    return "inconclusive", "undecided"


def _finite(at: float) -> float:
    if not math.isfinite(at):
        raise UsageError(f"a launch has the time {at}", hint="give seconds on one clock")
    return at
