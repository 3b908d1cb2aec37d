"""The rule: keep on proof, stop when proof has become unlikely. One body of code for one trial and for thousands.

A truncated group-sequential t test on adjacent pairs of a candidate and a baseline launch. Its variance is pooled with
the machine's A/A history, its null hypothesis is "the effect is at most a quarter of what is worthwhile". After every
launch the trial stops if the predicted chance of a keep has become small; for that, and for that only, recent baseline
launches of earlier trials (the ledger) count too, so they can end a trial but never help a keep.

Sources: Wang & Tsiatis 1987, *Biometrics* 43 (boundary); Spiegelhalter, Freedman & Blackburn 1986, *Controlled Clinical
Trials* 7 (predictive power); Jennison & Turnbull 2000, *Group Sequential Methods*, ch. 9 (repeated intervals).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from knowngood.reason.noise import SMALLEST_SCALE
from knowngood.reason.prior import chance_above, shrink
from knowngood.reason.profile import Profile, boundary
from knowngood.reason.track import DRIFT_SD, KNOWN, Floats, Track

Bools: TypeAlias = NDArray[np.bool_]

ORDER = (True, False, False, True)
"""Which launches are the candidate's: C B | B C | C B ... so that a steady drift cancels."""
FIRST_LOOK = 2
"""Pairs before a keep is possible."""
OUTLIER = 3.0
"""A pair counts for at most so many spreads away from the median pair."""
SUSPICIOUS = 2.55
"""A launch so many pair spreads below its like is measured again: 3 standard deviations of a launch around a level."""
RECALLED = 5
"""Launches that make up the level a launch is compared with."""
STEP_SD = DRIFT_SD
"""Allowance for a machine that stepped between the ledger and a trial that ends before its first pair, in ln units."""
LEVEL = 0.90
"""Coverage of the intervals."""
_INTERVAL_ALPHA = 0.05
# Trials stop when their estimate is low, so that 1.645 would cover a little less than LEVEL.
_USUAL_SCORE = 1.75
_LEAST_FREEDOM = 3


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for.

    Attributes:
        profile: How much proof, how long.
        worthwhile: Smallest effect worth having, in ln units.
        freedom: Degrees of freedom of the machine's history.
    """

    profile: Profile
    worthwhile: float
    freedom: int

    @property
    def null(self) -> float:
        """Largest effect that must not be kept, in ln units."""
        return self.worthwhile / 4

    def bar(self, pair: int) -> float:
        """Score that a keep needs at a pair."""
        return boundary(pair, pairs=self.profile.pairs, alpha=self.profile.alpha, freedom=self.freedom)


class Comparison(NamedTuple):
    """Pairs of each trial in short: robust mean, variance of one pair, degrees of freedom behind the variance."""

    mean: Floats
    var: Floats
    freedom: int


class Look(NamedTuple):
    """What a launch led to, for each trial; neither means go on."""

    keep: Bools
    stop: Bools


class Report(NamedTuple):
    """Effect in ln units with the ends of its interval, for each trial."""

    estimate: Floats
    low: Floats
    high: Floats


def compare(pairs: Floats, *, scale: Floats, freedom: int) -> Comparison:
    """Sum pairs up, robustly: a pair far from the median pair is pulled in.

    The variance is the larger of the pooled one and that of the trial's own pairs, because a candidate may be noisier
    than its baseline ever was.

    Args:
        pairs: ln differences candidate - baseline, shape (trials, pairs so far).
        scale: Spread of a pair from A/A history, shape (trials,).
        freedom: Degrees of freedom behind ``scale``.
    """
    count = pairs.shape[1]
    middle = np.median(pairs, axis=1, keepdims=True)
    reach = OUTLIER * scale[:, None]
    tamed = np.clip(pairs, middle - reach, middle + reach)
    mean = tamed.mean(axis=1)
    square_sum = ((tamed - mean[:, None]) ** 2).sum(axis=1)
    if count == 1:
        return Comparison(mean, scale**2, freedom)
    pooled = (freedom * scale**2 + square_sum) / (freedom + count - 1)
    own = np.maximum(square_sum / (count - 1), SMALLEST_SCALE**2)
    return Comparison(mean, np.maximum(pooled, own), freedom + count - 1)


def _normal_score(t: Floats, freedom: int) -> Floats:
    """Standard-normal score with the same tail as a Student-t score."""
    tail = np.asarray(stdtr(freedom, -t), dtype=np.float64)
    return np.asarray(-ndtri(np.maximum(tail, np.finfo(np.float64).tiny)), dtype=np.float64)


def _student_score(z: float, freedom: int) -> float:
    """Student-t score with the same tail as a standard-normal score."""
    return float(stdtrit(freedom, ndtr(z)))


class Trials:
    """Independent trials of one design in lockstep; a judge holds just one.

    Args:
        rule: What is asked for.
        scale: Spread of a pair on each trial's machine, in ln units, shape (trials,).
        ledger: (seconds, ln values of shape (trials,)) of recent baseline launches, oldest first.
    """

    def __init__(self, rule: Rule, scale: Floats, ledger: Sequence[tuple[float, Floats]] = ()) -> None:
        self.rule = rule
        self.scale = scale
        self.launches = 0
        self.pairs: Floats = np.empty((len(scale), 0))
        self._half: Floats = np.empty(0)
        self._comparison = Comparison(np.zeros_like(scale), scale**2, rule.freedom)
        self._levels: tuple[list[Floats], list[Floats]] = ([values for _, values in ledger[-RECALLED:]], [])
        # The first track knows this trial only; the last one, if there is a ledger, begins with it.
        self._tracks = (Track(scale), Track(scale)) if ledger else (Track(scale),)
        for at, values in ledger:
            self._tracks[-1].observe(values, candidate=False, at=at)

    @property
    def next_is_candidate(self) -> bool:
        """Arm of the next launch."""
        return ORDER[self.launches % len(ORDER)]

    def suspicious_below(self) -> Floats:
        """Value below which the next launch should be measured twice more and the median taken, shape (trials,).

        A launch is compared with its own arm; the candidate's first, which has no like, with the baseline's.
        """
        baseline, candidate = self._levels
        like = candidate if self.next_is_candidate and candidate else baseline
        if not like:
            return np.full_like(self.scale, -np.inf)
        return np.median(np.stack(like), axis=0) - SUSPICIOUS * self.scale

    def add(self, values: Floats, *, at: float) -> Look:
        """Take the next launch of every trial in.

        Args:
            values: ln of the metric, larger is better, shape (trials,).
            at: Start of the launch, in seconds on the ledger's clock.
        """
        candidate = self.next_is_candidate
        for track in self._tracks:
            track.observe(values, candidate=candidate, at=at)
        like = self._levels[candidate]
        like[:] = [*like[1 - RECALLED :], values]
        self.launches += 1
        if self.launches % 2:
            self._half = values
            keep = np.zeros(len(values), dtype=bool)
        else:
            pair = values - self._half if candidate else self._half - values
            self.pairs = np.column_stack([self.pairs, pair])
            self._comparison = compare(self.pairs, scale=self.scale, freedom=self.rule.freedom)
            keep = self._is_proven()
        return Look(keep, ~keep & self._is_over())

    def _is_proven(self) -> Bools:
        count = self.pairs.shape[1]
        mean, var, freedom = self._comparison
        if count < FIRST_LOOK:
            return np.zeros(len(mean), dtype=bool)
        proven = _normal_score((mean - self.rule.null) * np.sqrt(count / var), freedom) >= self.rule.bar(count)
        if self.rule.freedom:
            # A bad run inflates the spread of a +50 % winner; where each pair is proof by itself, that must not matter.
            alone = _student_score(self.rule.bar(self.rule.profile.pairs), self.rule.freedom)
            proven |= self.pairs.min(axis=1) - self.rule.null >= alone * self.scale
        return proven

    def _is_over(self) -> Bools:
        if self.launches == 2 * self.rule.profile.pairs:
            return np.ones(len(self.scale), dtype=bool)
        # Each track must see a chance: a ledger that flatters the candidate does not keep its trial going either.
        over: Bools = np.logical_or.reduce([self._is_hopeless(track) for track in self._tracks])
        if self.launches == 1:
            over &= self._tracks[-1].effect < self.rule.worthwhile
        return over

    def _is_hopeless(self, track: Track) -> Bools:
        most, count = self.rule.profile.pairs, self.pairs.shape[1]
        mean, var, _ = self._comparison
        left = most - count
        chance = chance_above(
            self.rule.null + self.rule.bar(most) * np.sqrt(var / most),
            effect=track.effect,
            var=track.effect_var * var / self.scale**2,
            done=count * mean / most,
            share_left=left / most,
            noise_var=var / left,
        )
        return (track.effect_var < KNOWN) & (chance < self.rule.profile.eta)

    @property
    def is_estimable(self) -> bool:
        """Whether both arms have been seen, the ledger included."""
        return bool(self._tracks[-1].effect_var.max() < KNOWN)

    def report(self, keep: Bools) -> Report:
        """Sum up what was measured, for trials that end now.

        A keep reports its pairs, with an interval that holds whenever one looks. A stop reports what the machine's
        track says of this trial's launches; only a trial without a pair falls back on the ledger, with an allowance.

        Args:
            keep: Which trials ended with a keep, shape (trials,).
        """
        count = self.pairs.shape[1]
        mean, var, freedom = self._comparison
        track = self._tracks[0 if count else -1]
        effect, effect_var = track.effect, track.effect_var + (0.0 if count else STEP_SD**2)
        effect_var = effect_var * var / self.scale**2
        half = _student_score(_USUAL_SCORE, max(freedom, _LEAST_FREEDOM)) * np.sqrt(effect_var)
        if keep.any():
            most = self.rule.profile.pairs
            score = boundary(count, pairs=most, alpha=_INTERVAL_ALPHA, freedom=self.rule.freedom)
            effect = np.where(keep, mean, effect)
            effect_var = np.where(keep, var / count, effect_var)
            half = np.where(keep, _student_score(score, freedom) * np.sqrt(effect_var), half)
        low, high = effect - half, effect + half
        return Report(np.clip(shrink(effect, effect_var), low, high), low, high)

    def narrow(self, index: NDArray[np.intp]) -> None:
        """Go on with some of the trials only.

        Args:
            index: Positions of the trials that go on.
        """
        self.scale, self.pairs = self.scale[index], self.pairs[index]
        self._half = self._half[index]
        mean, var, freedom = self._comparison
        self._comparison = Comparison(mean[index], var[index], freedom)
        baseline, candidate = self._levels
        self._levels = ([values[index] for values in baseline], [values[index] for values in candidate])
        for track in self._tracks:
            track.narrow(index)
