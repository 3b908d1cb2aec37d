"""Arrival times of an open loop, fixed before the first request is sent. Standard library only."""

import itertools
import random
from collections.abc import Iterator
from typing import Literal


def arrivals(rate: float, kind: Literal["constant", "poisson"], *, seed: int) -> Iterator[float]:
    """Yield arrival times without end, in seconds after the first, which is at 0.

    Args:
        rate: Requests per second, above 0.
        kind: ``constant`` gaps of ``1 / rate``, or the exponential gaps of a Poisson process.
        seed: Equal seeds give equal times on every platform.
    """
    if kind == "constant":
        # A product does not drift; a running sum of 1 / rate would.
        yield from (i / rate for i in itertools.count())
    rng = random.Random(f"arrivals/{seed}")  # noqa: S311 - reproducible, not secret
    at = 0.0
    while True:
        yield at
        at += rng.expovariate(rate)
