"""Best of many: tells which candidate to launch next, takes its value, lets the hopeless drop out, and names a winner.

In each block every candidate that is still in the race is launched once, and the baseline now and then. Each launch is
the machine's level and drift, plus the candidate's effect, plus noise. Most effects are small, so an estimate is pulled
towards zero. After a block those drop out that probably trail the leader, those that look worse than the baseline, and
those that cannot be much better than the leader: then either will do.

The winner is a guess, not a verdict: it was picked because it looked good. Its confirmation by an ordinary trial, with
fresh launches, carries the guarantee.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from knowngood.errors import UsageError
from knowngood.model.race import Standing, State
from knowngood.reason.decide import RECALLED, SUSPICIOUS
from knowngood.reason.judge import VERIFYING_RUNS
from knowngood.reason.ledger import trim_ledger
from knowngood.reason.noise import noise_floor
from knowngood.reason.track import Floats, Track

BASELINE = ""
"""Stands for the baseline where a candidate is named."""
BLOCKS = 8
"""Launches of a candidate at most."""
TRAILS = 1.3
"""A candidate drops out when it trails the leader by more than so many standard deviations of their difference."""
WORSE = -0.005
"""A candidate drops out when its estimate is below this, in ln units."""
LOSS = 0.004
"""A candidate drops out as level when preferring it to the leader would gain less than this on average, in ln units."""
EFFECT_SD = 0.04
"""Spread of effects before anything was measured, in ln units."""
REFERENCE_EVERY = 24
"""Launches after which the baseline is launched once more."""

_LEAST_VAR = 1e-12


class Race:
    """The race, as far as it went.

    It is pure: the same values give the same answers, so it can be built anew from the launches at any time.

    Args:
        candidates: Their names, in the order of their launches.
        at: Start of the race, in seconds on one clock.
        direction: Whether more or less of the metric is better.
        noise: ln differences of adjacent baseline launches on this machine.
        ledger: (seconds, value) of recent baseline launches.
        resolution: Standard deviation of a pair's ln difference that comes from how runs are measured.
        is_open: Whether more candidates may come in; the first block does not end before that is over.
    """

    def __init__(
        self,
        candidates: Sequence[str],
        *,
        at: float,
        direction: str = "higher",
        noise: Sequence[float] = (),
        ledger: Sequence[tuple[float, float]] = (),
        resolution: float = 0.0,
        is_open: bool = False,
    ) -> None:
        self.block = 0
        self._names = tuple(candidates)
        self._sign = 1.0 if direction == "higher" else -1.0
        self._is_open = is_open
        self._scale = noise_floor(noise, resolution=resolution).scale
        self._track = Track(np.array([self._scale]), candidates=len(self._names))
        self._scores: dict[str, list[float]] = {name: [] for name in (BASELINE, *self._names)}
        self._out: dict[str, tuple[State, int]] = {}
        self._launched: set[str] = set()
        for then, value in trim_ledger(ledger, now=at):
            self._observe(BASELINE, self._score(value), then)
        self._since = 0 if self._scores[BASELINE] else REFERENCE_EVERY

    @property
    def racing(self) -> tuple[str, ...]:
        """Candidates that have not dropped out."""
        return tuple(name for name in self._names if name not in self._out)

    @property
    def is_over(self) -> bool:
        """Whether no further launch is wanted."""
        return not self._is_open and (not self.racing or self.block == BLOCKS or (len(self.racing) == 1 <= self.block))

    @property
    def next(self) -> str | None:
        """Name of the candidate to launch next, ``BASELINE`` for the baseline; None if no launch is wanted."""
        if self.is_over:
            return None
        waiting = self._waiting
        if waiting and self._since >= REFERENCE_EVERY:
            return BASELINE
        return waiting[0] if waiting else None

    @property
    def leader(self) -> str:
        """The best of those that are still in the race, as it looks now; empty if nobody is."""
        mean, _ = self._estimates()
        return max(self.racing, key=lambda name: float(mean[self._names.index(name)]), default="")

    @property
    def winner(self) -> str:
        """The leader, once the race is over; empty if nobody is left."""
        return self.leader if self.is_over else ""

    def needs_verification(self, name: str, values: Sequence[float]) -> bool:
        """Whether the launch under way must be run once more: its first value is far below what it showed before."""
        known = self._scores[name][-RECALLED:]
        if not known or len(values) >= VERIFYING_RUNS:
            return False
        return len(values) > 1 or self._score(values[0]) < statistics.median(known) - SUSPICIOUS * self._scale

    def add(self, name: str, value: float, *, at: float) -> None:
        """Take the value of a launch in.

        Args:
            name: Candidate that was launched, or ``BASELINE``.
            value: The metric as measured, above 0.
            at: Start of the launch.

        Raises:
            UsageError: The value is not above 0.
        """
        self._observe(name, self._score(value), at)
        self._since = 0 if name == BASELINE else self._since + 1
        self._launched.add(name)
        self._settle()

    def drop(self, name: str) -> None:
        """Take a candidate out that cannot be measured; if nobody is left, those it had beaten come back."""
        self._out[name] = "failed", self.block + 1
        if not self.racing:
            self._out = {other: out for other, out in self._out.items() if out[0] not in ("level", "behind")}
        self._settle()

    def effect(self, name: str) -> float | None:
        """Estimate of a candidate's effect, shrunk, in ln units; None if it was not measured."""
        if not self._scores[name]:
            return None
        mean, _ = self._estimates()
        return float(mean[self._names.index(name)])

    def standings(self) -> tuple[Standing, ...]:
        """How each candidate stands: the winner, who is level with it, then who was the last to drop out."""
        mean, cov = self._estimates()
        winner = self.winner
        found: list[Standing] = []
        for at, name in enumerate(self._names):
            state, block = self._out.get(name, ("winner" if name == winner else "level", 0))
            launches = len(self._scores[name])
            found.append(
                Standing(
                    name=name,
                    state=state,
                    launches=launches,
                    estimate=math.expm1(mean[at]) if launches else None,
                    sd=math.sqrt(cov[at, at]) if launches else None,
                    block=block,
                )
            )
        return tuple(sorted(found, key=_rank))

    @property
    def _waiting(self) -> tuple[str, ...]:
        """Candidates to launch in this block; every other block goes backwards, so that a steady drift cancels."""
        waiting = [name for name in self.racing if name not in self._launched]
        return tuple(reversed(waiting)) if self.block % 2 else tuple(waiting)

    def _observe(self, name: str, score: float, at: float) -> None:
        number = 0 if name == BASELINE else 1 + self._names.index(name)
        self._track.observe(np.array([score]), candidate=number, at=at)
        self._scores[name].append(score)

    def _settle(self) -> None:
        """End the block if everybody had their launch."""
        if self._is_open or self._waiting or not self.racing:
            return
        self.block += 1
        self._launched.clear()
        mean, cov = self._estimates()
        lead = self._names.index(self.leader)
        for at in [self._names.index(name) for name in self.racing]:
            gap = float(mean[lead] - mean[at])
            gap_sd = math.sqrt(max(cov[lead, lead] + cov[at, at] - 2 * cov[lead, at], _LEAST_VAR))
            if mean[at] < WORSE:
                self._out[self._names[at]] = "worse", self.block
            elif gap > TRAILS * gap_sd:
                self._out[self._names[at]] = "behind", self.block
            elif at != lead and _regret(gap, gap_sd) < LOSS:
                self._out[self._names[at]] = "level", self.block

    def _estimates(self) -> tuple[Floats, Floats]:
        """Means and covariance of all effects, given that most effects are small; in ln units."""
        means, covs = self._track.effects
        prior, one = EFFECT_SD**2, np.eye(len(self._names))
        trust = np.asarray(prior * np.linalg.inv(covs[0] + prior * one), dtype=np.float64)
        return trust @ means[0], prior * (one - trust)

    def _score(self, value: float) -> float:
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"a measured value is {value}", hint="values must be above 0")
        return self._sign * math.log(value)


def _regret(gap: float, sd: float) -> float:
    """What the rival is worth more than the leader on average, where it is worth more at all; 0 where it is not."""
    z = gap / sd
    return sd * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - gap * math.erfc(z / math.sqrt(2)) / 2


def _rank(one: Standing) -> tuple[bool, int, float]:
    return one.state != "winner", -(one.block or BLOCKS + 1), -(one.estimate if one.estimate is not None else -1.0)
