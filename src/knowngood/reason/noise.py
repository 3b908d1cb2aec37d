"""How much two launches of the same thing differ on a machine, learned from A/A history."""

import math
import statistics
from collections.abc import Sequence

import msgspec

from knowngood.errors import UsageError

UNKNOWN_SCALE = 0.05
"""Assumed spread of a pair, in ln units, where there is no history: launches that differ by 3.5 % each."""
FULL_HISTORY = 4
"""A/A pairs from which on the history alone gives the spread."""
SMALLEST_SCALE = 0.001
"""No server repeats itself better than this; guards against histories of equal numbers."""
MOST_FREEDOM = 8
"""Degrees of freedom credited to history at most: a candidate may be noisier than its baseline ever was."""
FREEDOM_PER_PAIR = 0.8
"""Degrees of freedom a robust spread has per A/A pair."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Noise floor of one machine with one workload.

    Attributes:
        scale: Standard deviation of the ln difference of two adjacent launches of the same arm.
        freedom: Degrees of freedom behind it; 0 means that it is an assumption.
    """

    scale: float
    freedom: int


def noise_floor(differences: Sequence[float], *, resolution: float = 0.0) -> Noise:
    """Estimate the noise floor robustly: their mean is known to be 0, single outliers are pulled in to 3 MAD.

    With fewer than four differences the rest is filled up with ``UNKNOWN_SCALE``; with none, nothing else is left, and
    a keep then rests on the trial's own pairs alone.

    Args:
        differences: ln differences of adjacent baseline launches.
        resolution: Standard deviation that a difference has at least, because of how it was measured.

    Raises:
        UsageError: A difference is not a finite number.
    """
    if not all(math.isfinite(x) for x in differences):
        raise UsageError(
            f"an A/A difference is not a finite number: {list(differences)}",
            hint="pass ln(first / second) of adjacent baseline launches",
        )
    count = len(differences)
    sizes = [abs(x) for x in differences]
    if count >= FULL_HISTORY:
        bound = 3 * 1.4826 * statistics.median(sizes)
        sizes = [min(x, bound) for x in sizes]
    missing = max(FULL_HISTORY - count, 0)
    square = (sum(x * x for x in sizes) + missing * UNKNOWN_SCALE**2) / (count + missing)
    # 1.02: pulling outliers in takes 2 % off the spread of normal differences.
    scale = max(1.02 * math.sqrt(square), SMALLEST_SCALE, resolution)
    return Noise(scale=scale, freedom=min(MOST_FREEDOM, int(FREEDOM_PER_PAIR * count)))


def rate_resolution(requests: Sequence[int]) -> float:
    """Standard deviation of the difference of two runs that comes from their edges alone.

    A run's rate counts work up to a point somewhere inside a request (or inside its reading of the prompt, which shows
    no tokens), so it is uncertain by a uniform share of one request. Runs of equal work in step can agree to the token
    and still not resolve more than that.

    Args:
        requests: Requests that were measured in each run; runs without requests do not count.

    Returns:
        ln units; 0 if no run has requests.
    """
    counts = [count for count in requests if count > 0]
    return math.sqrt(2 / 12) / statistics.median(counts) if counts else 0.0


def noise_from_launches(values: Sequence[float]) -> tuple[float, ...]:
    """Pair baseline launches, in the order of their start, into A/A differences.

    Args:
        values: Metric of each launch, above 0. An odd last one is left out.

    Returns:
        ln(first / second) of each adjacent pair.

    Raises:
        UsageError: A value is not above 0.
    """
    for value in values:
        if not (math.isfinite(value) and value > 0):
            raise UsageError(
                f"a launch has the value {value}, which is not above 0", hint="leave failed launches out of the history"
            )
    return tuple(math.log(a / b) for a, b in zip(values[0::2], values[1::2], strict=False))
