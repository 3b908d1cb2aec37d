"""Which items of a change set help and which hurt: tells which subset to launch next, takes what was measured.

One item at a time would need many launches an item, and would lose those that only help together. Here every launch
holds about half of the items, by the rows of an orthogonal array and of its mirror image (fold-over), so that every
launch tells something of every item; a Gaussian model with an effect for each item and for each pair sorts it out.

Source: Plackett & Burman 1946 (arrays), Box & Wilson 1951 (fold-over), Chipman 1996 (priors of effects and pairs).
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from knowngood.errors import UsageError
from knowngood.model.isolation import Subset

Floats = NDArray[np.float64]

LEVEL_SD, DRIFT_SD, EFFECT_SD, PAIR_SD = 0.05, 0.02, 0.04, 0.02
"""Prior spread, in ln units: of the level of all launches, of its drift from the first launch to the last, of an item's
effect, of what a pair adds to its items' effects."""
FULL_FACTORIAL = 3
"""Items up to which all subsets are launched, each as often as the budget allows."""
EXHAUSTIVE = 14
"""Items up to which every subset is weighed; above, subsets are climbed to from many starts."""
STARTS = 64
ROUNDING = 1e-9
"""Gain in ln units that is none; below what weights of ``BARRED`` are rounded to."""
BARRED = 1e3
"""Weight of what does not run, in ln units: no gain outweighs it."""
PASSENGER = 0.4
"""Standard errors that an item's share must be worth to stay. More would leave out more passengers, but halves of pairs
with them: half of a pair that works only together looks like one."""
LEVEL_90 = 1.645
"""Standard-normal score of the ends of a 90 % interval."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What one item adds to the survivors (if it is one of them), or would add.

    Attributes:
        item: Its number.
        estimate: In ln units of a metric of which more is better.
        low: Lower end of the 90 % interval.
        high: Upper end.
    """

    item: int
    estimate: float
    low: float
    high: float


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """What a screen found.

    Attributes:
        survivors: The set that is best by all that was seen.
        effects: One an item.
    """

    survivors: tuple[int, ...]
    effects: tuple[Effect, ...]


class Screen:
    """Search for the items that help.

    It is pure: the same number of items and the same seed give the same subsets, in the same order.

    Args:
        count: Number of items, two or more.
        scale: Standard deviation of one launch, in ln units.
        seed: Of the order.
        launches: How many to make; 0 takes ``launches_for(count)``.
        known: Values of launches that are made already, in their order; None for one that failed.

    Raises:
        UsageError: There is nothing to choose from, or the launches are too few.
    """

    def __init__(
        self,
        count: int,
        *,
        scale: float,
        seed: int,
        launches: int = 0,
        known: Sequence[float | None] = (),
    ) -> None:
        if count < 2:  # noqa: PLR2004  (one item is not taken apart)
            raise UsageError("a change set of one item cannot be taken apart", hint="its trial has its verdict")
        if launches and launches < launches_for(count):
            raise UsageError(f"{launches} launches are too few", hint=f"{count} items take {launches_for(count)}")
        self._count = count
        self._scale = scale
        self.rows = design(count, launches or launches_for(count), seed=seed)
        self._values: list[float | None] = list(known)

    @property
    def next(self) -> Subset | None:
        """Items to launch together next; None when all is measured."""
        if len(self._values) >= len(self.rows):
            return None
        return frozenset(int(item) for item in np.flatnonzero(self.rows[len(self._values)]))

    def add(self, value: float | None) -> None:
        """Take in what came out of launching ``next``.

        Args:
            value: ln of the metric, its sign turned if less is better; None for a launch that failed.

        Raises:
            UsageError: All is measured.
        """
        if self.next is None:
            raise UsageError("a value was added to a screen that is over", hint="stop when next is None")
        self._values.append(value)

    @property
    def found(self) -> Sorted | None:
        """What was found; None as long as launches are wanted.

        Raises:
            UsageError: Fewer than half of the launches could be measured.
        """
        if self.next is not None:
            return None
        good = np.array([value is not None for value in self._values])
        if good.sum() < len(good) / 2:
            raise UsageError(
                f"{len(good) - int(good.sum())} of {len(good)} subsets do not run, so little can be said of the rest",
                hint='give members that need each other one group = "NAME"',
            )
        times = np.linspace(-0.5, 0.5, len(good))[good]
        values = np.array([value for value in self._values if value is not None])
        model = Model(self._count, self.rows[good], values, times, scale=self._scale)
        return choose(model, needs_of(self.rows, good))


def launches_for(count: int) -> int:
    """Launches that a screen takes: four more than items, in fours; all subsets twice for two items, once for three."""
    return 8 if count <= FULL_FACTORIAL else 4 * math.ceil((count + 4) / 4)


def design(count: int, launches: int, *, seed: int) -> Floats:
    """Subsets to launch, one a row, 1.0 where an item is in.

    Args:
        count: Number of items.
        launches: Number of rows.
        seed: Of the columns and of the order.
    """
    rng = np.random.default_rng(seed)
    if count <= FULL_FACTORIAL:
        return rng.permutation(np.resize(every_subset(count), (launches, count)))
    signs = hadamard(count + 1)
    array = signs[:, 1 + rng.permutation(len(signs) - 1)[:count]]
    blocks = [array, -array]
    while sum(map(len, blocks)) < launches:
        flipped = array * rng.choice([-1, 1], count)
        blocks += [flipped, -flipped]
    rows = np.concatenate(blocks)[:launches]
    return rng.permutation((rows + 1) / 2)


def every_subset(count: int) -> Floats:
    """All subsets of some items, one a row."""
    return np.array([[number >> item & 1 for item in range(count)] for number in range(2**count)], dtype=np.float64)


def hadamard(least: int) -> NDArray[np.int64]:
    """The smallest Hadamard matrix of an order of ``least`` or more that these constructions reach.

    Doubling (Sylvester 1867), and quadratic residues of a prime one below the order (Paley 1933). The first column is
    all ones.
    """
    order = least if least <= 2 else 4 * math.ceil(least / 4)  # noqa: PLR2004  (orders are 1, 2 and multiples of 4)
    while (found := construct(order)) is None:
        order += 4
    return found * found[:, :1]


def construct(order: int) -> NDArray[np.int64] | None:
    """A Hadamard matrix of one order; None if these constructions do not reach it."""
    if order == 1:
        return np.ones((1, 1), dtype=np.int64)
    prime = order - 1  # three above a multiple of four, as the construction asks for
    if order % 4 == 0 and all(prime % one for one in range(2, math.isqrt(prime) + 1)):
        squares = {one * one % prime for one in range(1, prime)}
        character = np.array([0, *(1 if one in squares else -1 for one in range(1, prime))])
        matrix = np.ones((order, order), dtype=np.int64)
        matrix[1:, 1:] = character[np.subtract.outer(np.arange(prime), np.arange(prime)) % prime]
        matrix[1:, 1:] += np.eye(prime, dtype=np.int64)
        matrix[1:, 0] = -1
        return matrix
    half = construct(order // 2) if order % 2 == 0 else None
    return None if half is None else np.kron(np.array([[1, 1], [1, -1]]), half)


class Model:
    """Gaussian model of ln values: a level, its drift, an effect an item, an effect a pair.

    Args:
        count: Number of items.
        rows: Subsets that were measured.
        values: Their ln values.
        times: When, from -0.5 to 0.5.
        scale: Standard deviation of one launch.

    Attributes:
        error: Standard error of an item's effect, if every launch tells of every item.
    """

    def __init__(self, count: int, rows: Floats, values: Floats, times: Floats, *, scale: float) -> None:
        self.count = count
        self.error = 2 * scale / math.sqrt(len(rows))
        self.pairs = np.triu_indices(count, 1)
        # Large effects would be taken for noise by priors for small ones.
        wide = max(1.0, float(np.std(values)) / (EFFECT_SD * math.sqrt(count) / 2))
        spread = np.concatenate(
            [
                [LEVEL_SD, DRIFT_SD],
                np.full(count, EFFECT_SD * wide),
                np.full(len(self.pairs[0]), PAIR_SD * wide),
            ]
        )
        seen = np.column_stack([np.ones(len(rows)), times, self.features(rows)])
        precision = np.diag(spread**-2.0) + seen.T @ seen / scale**2
        covariance: Floats = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        weights: Floats = covariance @ (seen.T @ (values - values.mean()) / scale**2)
        self.weights = weights[2:]
        self.covariance = covariance[2:, 2:]

    def features(self, rows: Floats) -> Floats:
        """Items and pairs that are in each subset."""
        return np.column_stack([rows, rows[:, self.pairs[0]] * rows[:, self.pairs[1]]])

    def share(self, item: int, others: Floats) -> tuple[float, float]:
        """What an item adds to others, in ln units, and its standard deviation."""
        rows = np.vstack([others, others])
        rows[:, item] = (0.0, 1.0)
        contrast = np.diff(self.features(rows), axis=0)[0]
        return float(contrast @ self.weights), math.sqrt(max(float(contrast @ self.covariance @ contrast), 0.0))


def needs_of(rows: Floats, good: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """What failed launches teach: (item, other) says that the item runs only with the other.

    The whole set runs, so a subset can only fail for want of something. Greedy cover: no launch that ran contradicts
    a pair, and each explains failures that those before it do not.
    """
    count = rows.shape[1]
    inside, ran = rows > 0, rows[good] > 0
    pairs = [
        (item, other)
        for item in range(count)
        for other in range(count)
        if item != other and not (ran[:, item] & ~ran[:, other]).any()
    ]
    found: list[tuple[int, int]] = []
    puzzling = inside[~good]
    while pairs and len(puzzling):
        explained: list[NDArray[np.bool_]] = [(puzzling[:, item] & ~puzzling[:, other]) for item, other in pairs]
        best = max(range(len(pairs)), key=lambda at: int(np.count_nonzero(explained[at])))
        if not explained[best].any():
            break
        found.append(pairs[best])
        puzzling = puzzling[~explained[best]]
    return found


def choose(model: Model, needs: Sequence[tuple[int, int]]) -> Sorted:
    """The best set by the model: what an item needs goes with it, passengers are left out."""
    count = model.count
    best = climb_or_count(*weigh(model, needs))
    needed = {other for item, other in needs if best[item]}
    dropped = True
    while dropped:
        dropped = False
        shares = {item: model.share(item, best)[0] for item in range(count) if best[item] and item not in needed}
        weakest = min(shares, key=lambda item: shares[item], default=None)
        if weakest is not None and shares[weakest] < PASSENGER * model.error:
            best[weakest] = 0.0
            needed = {other for item, other in needs if best[item]}
            dropped = True
    found = [(item, *model.share(item, best)) for item in range(count)]
    return Sorted(
        survivors=tuple(int(item) for item in np.flatnonzero(best)),
        effects=tuple(
            Effect(item=item, estimate=mean, low=mean - LEVEL_90 * sd, high=mean + LEVEL_90 * sd)
            for item, mean, sd in found
        ),
    )


def weigh(model: Model, needs: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Effects of items, and of pairs as a symmetric matrix; an item without what it needs is barred."""
    effects = model.weights[: model.count].copy()
    pairs = np.zeros((model.count, model.count))
    pairs[model.pairs] = model.weights[model.count :]
    pairs += pairs.T
    for item, other in needs:
        effects[item] -= BARRED
        pairs[item, other] += BARRED
        pairs[other, item] += BARRED
    return effects, pairs


def climb_or_count(effects: Floats, pairs: Floats) -> Floats:
    """The subset of the largest value: by counting all, or by climbing from many starts."""
    count = len(effects)
    if count <= EXHAUSTIVE:
        rows = every_subset(count)
    else:
        starts = np.random.default_rng(0).integers(0, 2, (STARTS, count))
        rows = climb(np.concatenate([[np.ones(count), np.zeros(count)], starts]).astype(np.float64), effects, pairs)
    best: Floats = rows[int(np.argmax(worth(rows, effects, pairs)))]
    return best.copy()


def climb(tops: Floats, effects: Floats, pairs: Floats) -> Floats:
    """Improve subsets, all at once, by the best single item each until none improves."""
    every = np.arange(len(tops))
    while True:
        gains = (effects + tops @ pairs) * (1 - 2 * tops)
        steps = np.argmax(gains, axis=1)
        better = gains[every, steps] > ROUNDING
        if not better.any():
            return tops
        tops[every[better], steps[better]] = 1 - tops[every[better], steps[better]]


def worth(rows: Floats, effects: Floats, pairs: Floats) -> Floats:
    """Value of subsets, in ln units."""
    return np.asarray(rows @ effects + ((rows @ pairs) * rows).sum(axis=1) / 2, dtype=np.float64)
