"""A race of many candidates: what may be varied, and how each candidate stands."""

from typing import Literal

import msgspec

Scalar = str | int | float | bool
Values = dict[str, Scalar]
"""Knob to its value."""
State = Literal["winner", "level", "behind", "worse", "failed"]


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a launch or of the host that may be varied: by ``choices``, or from ``low`` to ``high``.

    Attributes:
        kind: What it is set by.
        name: Flag as written on the command line, variable, or setting.
        choices: Values to choose from; True is a bare flag, False the flag taken away.
        low: Smallest value of a range.
        high: Largest value of a range.
        step: Distance of the values in a range; 0 leaves every value between open.
        log: Whether equal ratios are equally interesting, instead of equal distances.
        when: Other knob to the values with which this one takes part; otherwise it stays as the baseline has it.
        read: Of a setting: the command that prints it.
        write: Of a setting: the command that sets it.
    """

    kind: Literal["flag", "env", "setting"]
    name: str
    choices: tuple[Scalar, ...] = ()
    low: int | float = 0
    high: int | float = 0
    step: int | float = 0
    log: bool = False
    when: dict[str, tuple[Scalar, ...]] = {}
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """Knobs that are varied together.

    Attributes:
        name: Stem of its file by default.
        claim: What is believed of it.
        because: Why.
        knobs: What may be varied.
        forbid: Combinations that are never proposed: knob to the values that must not meet.
        launches: Most launches spent on proposals.
        minutes: Most minutes spent on proposals; 0 sets no limit.
    """

    name: str
    claim: str = ""
    because: str = ""
    knobs: tuple[Knob, ...]
    forbid: tuple[dict[str, tuple[Scalar, ...]], ...] = ()
    launches: int = 20
    minutes: float = 0.0


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How one candidate came out of a race.

    Attributes:
        name: Of the hypothesis.
        state: ``level`` with the winner, ``behind`` it, ``worse`` than the baseline, or ``failed``.
        launches: Launches that counted.
        estimate: Effect, shrunk towards zero, as a ratio minus one; None if it was never measured.
        sd: Its standard deviation, in ln units.
        block: Block after which it dropped out, from 1; 0 if it did not.
    """

    name: str
    state: State
    launches: int = 0
    estimate: float | None = None
    sd: float | None = None
    block: int = 0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate, or the baseline, in two metrics.

    Attributes:
        name: Of the candidate; empty for the baseline.
        x: Median of the first metric over its launches.
        y: Median of the second metric.
        launches: Launches behind it.
        on_front: Nobody is better in one metric without being worse in the other.
    """

    name: str
    x: float
    y: float
    launches: int
    on_front: bool = False
