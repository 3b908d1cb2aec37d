"""How long the demo's runs are: a slow machine gets shorter ones, so that the story is told in the same time."""

import time

import msgspec

from knowngood.demo.prompts import FEW_ROWS, ROWS

REFERENCE_S = 0.055
"""Seconds that ``slowness`` counts for 1: its loop on an ordinary core of 2023 that nobody else uses."""
LOOPS = 1_000_000
TRIES = 5
SLOWEST = 3.0
SLOW = 1.8


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the demo's load and of its answers guard.

    Attributes:
        duration_s: Length of a run's window.
        osl: Mean output length, in tokens.
        rows: Rows in a prompt.
        answers: Prompts of the answers guard.
        tokens: Tokens asked for in each.
    """

    duration_s: float
    osl: int
    rows: int
    answers: int
    tokens: int


def size(*, quick: bool, slowness: float) -> Size:
    """Sizes that tell the story in time.

    Args:
        quick: Four minutes instead of twelve.
        slowness: Of the machine; 1 is an ordinary one.
    """
    pace = min(max(slowness, 1.0), SLOWEST)
    rows = FEW_ROWS if quick else ROWS
    return Size(
        duration_s=round((3.0 if quick else 6.0) - (pace - 1) / 2, 1),
        osl=round((32 if quick else 48) / pace),
        rows=rows if pace < SLOW else rows // 2,
        answers=6 if quick else 20,
        tokens=round((8 if quick else 16) / min(pace, 2.0)),
    )


def slowness() -> float:
    """How slow this machine is now, neighbours included: 1 is an ordinary one, 2 takes twice as long."""
    return min(timed() for _ in range(TRIES)) / REFERENCE_S


def timed() -> float:
    """Seconds that a fixed piece of arithmetic takes."""
    begun = time.perf_counter()
    total = 0
    for number in range(LOOPS):
        total += number
    return time.perf_counter() - begun
