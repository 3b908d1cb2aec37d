"""From values to pixels: linear, logarithmic and effect axes, with ticks at numbers a person would choose."""

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from knowngood.faces.report.words import MINUS

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
PADDING = 0.08
ROOM = 40.0
"""Pixels between the middles of two labels."""
LEADS = (1.0, 2.0, 5.0, 3.0, 7.0, 1.5, 4.0)
"""First digits of a logarithmic axis's labels, the most wanted first."""
LEAST_LOG_SPAN = 2.0
SMALLEST = 1e-9
BEND = 0.05
"""A bent axis is linear up to about this effect and logarithmic beyond, in ln units."""
WIDE = math.log(1.8)
"""Span of effects from which on even steps in percent no longer fit an axis in ln units."""


class Tick(msgspec.Struct, frozen=True):
    """A labelled place on an axis, in the axis's own units."""

    value: float
    label: str


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One axis.

    Attributes:
        low: Value at ``start``.
        high: Value at ``end``.
        start: Pixel of the lowest value.
        end: Pixel of the highest value.
        bend: Monotone function that makes the axis linear.
        ticks: Labelled places.
    """

    low: float
    high: float
    start: float
    end: float
    bend: Callable[[float], float]
    ticks: tuple[Tick, ...] = ()

    def at(self, value: float) -> float:
        """Pixel of a value; values beyond the ends are put at the ends."""
        inside = min(max(value, self.low), self.high)
        low, high = self.bend(self.low), self.bend(self.high)
        return self.start + (self.bend(inside) - low) / (high - low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether a value lies between the ends."""
        return self.low <= value <= self.high


def straight(value: float) -> float:
    """Leave a value as it is: the linear axis."""
    return value


def bent(ln: float) -> float:
    """Bend effects so that 1 % and a tripling are both seen on one axis."""
    return math.asinh(ln / BEND)


def nice_step(width: float, most: int) -> float:
    """Smallest 1, 2, 2.5 or 5 times a power of ten that cuts a width into at most ``most`` parts."""
    rough = width / most
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(step for step in STEPS if step * power >= rough * (1 - 1e-9))


def multiples(low: float, high: float, step: float) -> tuple[float, ...]:
    """All multiples of a step inside a span."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(step * n for n in range(first, last + 1))


def padded(values: Iterable[float], *, least: float) -> tuple[float, float]:
    """Ends of an axis that shows all values with air around them; at least ``least`` wide."""
    seen = tuple(values)
    low, high = min(seen), max(seen)
    air = max(PADDING * (high - low), (least - (high - low)) / 2)
    return low - air, high + air


def decimals(step: float) -> int:
    """Digits after the point that a step needs to be told from its neighbours."""
    return next(digits for digits in range(12) if math.isclose(round(step, digits), step, rel_tol=1e-6))


def linear(values: Iterable[float], *, start: float, end: float, most: int = 5, floor: float | None = None) -> Axis:
    """A linear axis.

    Args:
        values: All that is to be shown.
        start: Pixel of the low end.
        end: Pixel of the high end.
        most: Largest number of steps between ticks.
        floor: The low end, if it is fixed.
    """
    seen = tuple(values)
    low, high = padded(seen, least=0.01 * max(abs(max(seen)), 1e-6))
    low = low if floor is None else floor
    step = nice_step(high - low, most)
    digits = decimals(step)
    ticks = tuple(Tick(value, f"{value:,.{digits}f}") for value in multiples(low, high, step))
    return Axis(low=low, high=high, start=start, end=end, bend=straight, ticks=ticks)


def logarithmic(low: float, high: float, *, start: float, end: float) -> Axis:
    """A logarithmic axis of positive values, ticks at round multiples of the powers of ten as far as there is room."""
    if high < LEAST_LOG_SPAN * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(LEAST_LOG_SPAN), middle * math.sqrt(LEAST_LOG_SPAN)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    wanted = [Tick(lead * 10.0**power, f"{lead * 10.0**power:,g}") for lead in LEADS for power in powers]
    axis = Axis(low=low, high=high, start=start, end=end, bend=math.log)
    return with_room(axis, wanted)


def effects(lns: Sequence[float], *, start: float, end: float) -> Axis:
    """An axis of effects in ln units, labelled in percent; zero is always on it."""
    low, high = padded((0.0, *lns), least=0.01)
    axis = Axis(low=low, high=high, start=start, end=end, bend=straight)
    if high - low > WIDE:
        return with_room(axis, EFFECT_TICKS)
    step = nice_step(math.expm1(high) - math.expm1(low), max(3, int(abs(end - start) / 80)))
    digits = max(0, decimals(step) - 2)
    shares = multiples(math.expm1(low), math.expm1(high), step)
    ticks = (Tick(math.log1p(share), signed(share, digits)) for share in shares)
    return msgspec.structs.replace(axis, ticks=tuple(ticks))


def bent_effects(lns: Sequence[float], *, start: float, end: float) -> Axis:
    """An axis that shows a gain of 1 % and a tripling side by side: linear near zero, logarithmic far out."""
    low, high = padded((0.0, *lns), least=0.02)
    return with_room(Axis(low=low, high=high, start=start, end=end, bend=bent), EFFECT_TICKS)


def with_room(axis: Axis, wanted: Iterable[Tick]) -> Axis:
    """The axis with those ticks that have room, the first ones first."""
    placed: list[Tick] = []
    for tick in wanted:
        if axis.holds(tick.value) and all(abs(axis.at(tick.value) - axis.at(one.value)) >= ROOM for one in placed):
            placed.append(tick)
    return msgspec.structs.replace(axis, ticks=tuple(sorted(placed, key=lambda tick: tick.value)))


def signed(share: float, digits: int) -> str:
    """A tick's label in percent, or as a factor from a doubling on."""
    if abs(share) < SMALLEST:
        return "0"
    return f"×{1 + share:g}" if share >= 1 else f"{share:+.{digits}%}".replace("-", MINUS)


def _effect_ticks() -> tuple[Tick, ...]:
    gains = (0.0, 0.10, 1.0, 9.0, 0.5, 4.0, 0.05, 0.2, 2.0, 0.02, 0.01, 19.0, 49.0, 99.0, 999.0)
    ticks: list[Tick] = []
    for gain in gains:
        ticks.append(Tick(math.log1p(gain), signed(gain, 0)))
        if 0 < gain < 1:
            ticks.append(Tick(math.log1p(-gain), signed(-gain, 0)))
        elif gain >= 1:
            ticks.append(Tick(-math.log1p(gain), f"×1/{1 + gain:g}"))
    return tuple(ticks)


EFFECT_TICKS = _effect_ticks()
"""Labels of an axis that spans small and large effects, the most wanted first."""
