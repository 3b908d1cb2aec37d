"""The budget of one step as lines that add up, and what removing the largest of them would bring."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from knowngood.model.profile import StepProfile
from knowngood.model.steptime import Confidence, Facts
from knowngood.reason.steptime.arithmetic import Arithmetic
from knowngood.reason.steptime.collectives import Cost, choice
from knowngood.reason.steptime.floors import speedup_bound

Kind = Literal["transport", "waiting", "memory", "kernels", "idle", "drafting"]
SMALL = 1e-9


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a budget.

    Attributes:
        what: In words.
        kind: What sort of cost it is; it decides which experiments fit.
        ms: In milliseconds.
        share: Of the round, 0 to 1.
        confidence: How far the number can be trusted.
        how: Where it comes from.
    """

    what: str
    kind: Kind
    ms: float
    share: float
    confidence: Confidence
    how: str


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A round of speculation, or a step without it.

    Attributes:
        step: What is budgeted.
        ms: Its length, in milliseconds.
        lines: They add up to ``ms``.
        principal: The largest line; None without lines.
        bound: How many times faster the round gets at most when the principal cost is gone.
    """

    step: Literal["verify", "decode"]
    ms: float
    lines: tuple[Line, ...]
    principal: Line | None
    bound: float


def budget(facts: Facts, found: Arithmetic, profiles: Sequence[StepProfile] = ()) -> Budget | None:
    """Draw up the budget.

    Args:
        facts: What was given.
        found: What follows from it.
        profiles: Steps seen in profiles; the first is used, for its shares.

    Returns:
        The verify step if its length is known, else the step without speculation, else the profile's; None without any.
    """
    draft_ms = sum(found.draft_ms) / 2
    verify = found.verify_ms is not None
    length = found.verify_ms if verify else found.base_ms
    drawn: list[Line]
    if profiles:
        length = length or profiles[0].step_ms
        drawn = profile_lines(profiles[0], length)
    elif length is None:
        return None
    elif verify:
        drawn = lines_of(length, found.collective_ms, found.idle_ms, found, cost=found.verify_cost)
    else:
        idle = (facts.baseline.idle_share or 0.0) * length
        drawn = lines_of(length, facts.baseline.collective_ms, idle, found, cost=found.base_cost, base=True)
    if verify and draft_ms > SMALL:
        given = found.draft_ms[0] == found.draft_ms[1]
        how = "given" if given else f"nobody timed it: {found.draft_ms[0]:.1f} to {found.draft_ms[1]:.1f} ms"
        drawn.append(
            line("drafting and the rest of the round", "drafting", draft_ms, "measured" if given else "assumed", how)
        )
    whole = sum(one.ms for one in drawn)
    shown = tuple(msgspec.structs.replace(one, share=one.ms / whole) for one in drawn if one.ms > SMALL)
    principal = max(shown, key=lambda one: one.ms, default=None)
    bound = speedup_bound(whole, principal.ms) if principal else 1.0
    return Budget(step="verify" if verify else "decode", ms=whole, lines=shown, principal=principal, bound=bound)


def lines_of(
    length: float,
    collective_ms: float | None,
    idle_ms: float,
    found: Arithmetic,
    *,
    cost: Cost | None,
    base: bool = False,
) -> list[Line]:
    """Lines of a step of which at most the collectives were timed."""
    count = found.collectives
    modelled = None if cost is None or not count else count * cost.us / 1e3
    drawn: list[Line] = []
    if collective_ms is None and modelled is not None:
        drawn.append(line("all-reduce", "transport", min(modelled, length), "modelled", model_says(cost, count)))
    elif collective_ms is not None and modelled is None:
        drawn.append(line("all-reduce", "waiting", collective_ms, "measured", "given; hardware unknown, so not split"))
    elif collective_ms is not None and modelled is not None:
        healthy = min(modelled, collective_ms)
        drawn.append(line("all-reduce, healthy transport", "transport", healthy, "modelled", model_says(cost, count)))
        how = f"{collective_ms:.1f} ms of collectives less {healthy:.1f}: waiting, host memory, another protocol"
        drawn.append(line("all-reduce beyond that", "waiting", collective_ms - healthy, "derived", how))
    taken = sum(one.ms for one in drawn)
    drawn.append(line("no kernel runs", "idle", min(idle_ms, length - taken), "measured", "given"))
    rest = max(0.0, length - sum(one.ms for one in drawn))
    floor = found.base_floor_ms if base else found.verify_floor_ms
    if floor is not None:
        drawn.append(line("weights and products, at least", "memory", min(floor, rest), "modelled", "roofline"))
        rest -= min(floor, rest)
    how = "what is left of the step" if taken or floor else "the whole step; give collective_ms, or a trace"
    drawn.append(line("all other kernels", "kernels", rest, "derived", how))
    return drawn


def model_says(cost: Cost | None, count: int | None) -> str:
    """How a modelled collective came about."""
    return "" if cost is None else f"{count} × {cost.us:.0f} µs, NCCL's model, {cost.algorithm} {cost.protocol}"


def profile_lines(profile: StepProfile, length: float) -> list[Line]:
    """Lines of a profiled step, scaled to the length that was measured without a profiler."""
    scale = length / profile.step_ms if profile.step_ms else 1.0
    waits = {one.category: one for one in profile.collectives if one.wait_us is not None}
    scaled = abs(scale - 1) > 0.01  # noqa: PLR2004  (rounding)
    note = f"share of the profile, × {scale:.2f} to the length without it" if scaled else "profile"
    drawn: list[Line] = []
    for part in profile.parts:
        ms = part.ms * scale
        kind: Kind = "kernels"
        if part.category.startswith("comm"):
            kind = "waiting"
            seen = waits.get(part.category)
            if seen is not None and seen.transport_us is not None and seen.mean_us > 0:
                transport = ms * seen.transport_us / seen.mean_us
                drawn.append(
                    line(f"{part.category}, transport", "transport", transport, "measured", f"{note}; shortest rank")
                )
                ms -= transport
                drawn.append(
                    line(f"{part.category}, waiting", "waiting", ms, "measured", f"{note}; rest of each instance")
                )
                continue
        elif part.category in {"gemm", "moe.gemm", "attention"}:
            kind = "memory"
        drawn.append(line(f"{part.category} ({part.count:.0f} a step)", kind, ms, "measured", note))
    drawn.append(line("no kernel runs", "idle", profile.idle_ms * scale, "measured", note))
    return drawn


def line(what: str, kind: Kind, ms: float, confidence: Confidence, how: str) -> Line:
    """Short for a line whose share is not known yet."""
    return Line(what=what, kind=kind, ms=ms, share=0.0, confidence=confidence, how=how)


def target_us(facts: Facts, found: Arithmetic) -> float | None:
    """What one all-reduce of the step could cost on a healthy machine, in microseconds."""
    size = found.verify_bytes if found.verify_ms is not None else found.base_bytes
    cost = choice(size, facts.hardware) if size else None
    return cost.us if cost else None
