"""From what was measured to what it implies: the numbers that a colleague would work out on paper."""

import msgspec

from knowngood.model.steptime import Confidence, Facts, WhatIf
from knowngood.reason.speculation import Round, expected_tokens
from knowngood.reason.steptime.collectives import Cost, choice, message_bytes, per_step, tokens_in
from knowngood.reason.steptime.floors import floor_ms

UNKNOWN_DRAFT_SHARE = 0.1
"""Nobody timed the drafting: it takes something between nothing and this share of the verify step."""


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A number with where it comes from.

    Attributes:
        name: What it is.
        value: The number.
        unit: Its unit.
        confidence: How far it can be trusted.
        how: The formula with its numbers.
    """

    name: str
    value: float
    unit: str
    confidence: Confidence
    how: str


class Arithmetic(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that follows from the facts; ``None`` where they do not reach.

    Attributes:
        collectives: All-reduces of a forward.
        base_ms: Step without speculation, in milliseconds.
        verify_ms: Verify step, in milliseconds.
        collective_ms: Its time inside collectives, in milliseconds.
        allreduce_us: One of them, in microseconds.
        idle_ms: Its time without any kernel, in milliseconds.
        compute_ms: Its remainder, in milliseconds.
        base_allreduce_us: One all-reduce without speculation, in microseconds.
        base_allreduce_given: It was measured; else compute is taken to be the same in both steps.
        base_compute_ms: A step without speculation but for its collectives, in milliseconds.
        verify_tokens: Tokens in the verify step.
        drafts: Tokens drafted a round.
        draft_ms: Drafting and everything else of a round: the smallest and the largest it can be, in milliseconds.
        tokens: Tokens that a round yields: for the smallest and for the largest ``draft_ms``.
        tokens_given: They were measured; else they follow from rate and length of a round.
        base_bytes: Size of an all-reduce without speculation, in bytes.
        verify_bytes: Size in the verify step, in bytes.
        base_cost: What the model of NCCL says of it without speculation.
        verify_cost: What it says in the verify step.
        base_floor_ms: Least time for weights and products without speculation, in milliseconds.
        verify_floor_ms: The same in the verify step, in milliseconds.
    """

    collectives: int | None = None
    base_ms: float | None = None
    verify_ms: float | None = None
    collective_ms: float | None = None
    allreduce_us: float | None = None
    idle_ms: float = 0.0
    compute_ms: float | None = None
    base_allreduce_us: float | None = None
    base_allreduce_given: bool = False
    base_compute_ms: float | None = None
    verify_tokens: float | None = None
    drafts: int | None = None
    draft_ms: tuple[float, float] = (0.0, 0.0)
    tokens: tuple[float, float] | None = None
    tokens_given: bool = False
    base_bytes: float | None = None
    verify_bytes: float | None = None
    base_cost: Cost | None = None
    verify_cost: Cost | None = None
    base_floor_ms: float | None = None
    verify_floor_ms: float | None = None

    def round(self, *, end: int = 0, what_if: WhatIf | None = None) -> Round | None:
        """A round of speculation beside a step without it.

        Args:
            end: 0 for the smallest time that drafting can take, 1 for the largest.
            what_if: Supposed numbers in place of these.

        Returns:
            None if rates, lengths or the number of collectives are not known.
        """
        if (
            self.tokens is None
            or self.drafts is None
            or self.compute_ms is None
            or self.base_compute_ms is None
            or self.collectives is None
            or self.allreduce_us is None
            or self.base_allreduce_us is None
        ):
            return None
        known = Round(
            tokens=self.tokens[end],
            drafts=self.drafts,
            compute_ms=self.compute_ms + self.idle_ms,
            base_compute_ms=self.base_compute_ms,
            collectives=self.collectives,
            allreduce_us=self.allreduce_us,
            base_allreduce_us=self.base_allreduce_us,
            draft_ms=self.draft_ms[end],
        )
        return known if what_if is None else suppose(known, what_if)


def suppose(known: Round, what_if: WhatIf) -> Round:
    """The round with supposed numbers; without speculation an all-reduce is no slower than that, nor than now."""
    changed: dict[str, float | int] = {}
    if what_if.allreduce_us is not None:
        changed |= {
            "allreduce_us": what_if.allreduce_us,
            "base_allreduce_us": min(known.base_allreduce_us, what_if.allreduce_us),
        }
    if what_if.compute_ms is not None:
        changed |= {"compute_ms": what_if.compute_ms, "base_compute_ms": what_if.compute_ms}
    if what_if.tokens_per_verify is not None:
        changed["tokens"] = what_if.tokens_per_verify
    if what_if.draft_ms is not None:
        changed["draft_ms"] = what_if.draft_ms
    if what_if.drafts is not None:
        changed["drafts"] = what_if.drafts
    return msgspec.structs.replace(known, **changed)


def work_out(facts: Facts) -> Arithmetic:
    """Work out what the facts imply. Nothing is taken from claims."""
    model, spec = facts.model, facts.speculation
    collectives = per_step(model)
    base_ms = facts.baseline.step_ms or (1e3 / facts.baseline.tok_s if facts.baseline.tok_s else None)
    drafts = drafts_of(facts)
    verify_tokens = None if drafts is None else float(drafts + 1)
    verify_bytes = spec.message_bytes or (None if verify_tokens is None else message_bytes(model, verify_tokens))
    base_bytes = message_bytes(model, 1)
    found = Arithmetic(
        collectives=collectives,
        base_ms=base_ms,
        verify_ms=spec.verify_ms,
        drafts=drafts,
        verify_tokens=verify_tokens,
        base_bytes=base_bytes,
        verify_bytes=verify_bytes,
        base_cost=choice(base_bytes, facts.hardware) if base_bytes else None,
        verify_cost=choice(verify_bytes, facts.hardware) if verify_bytes else None,
        base_floor_ms=floor_ms(model, facts.hardware, 1),
        verify_floor_ms=floor_ms(model, facts.hardware, verify_tokens) if verify_tokens else None,
    )
    return with_tokens(facts, with_base(facts, with_verify(facts, found)))


def drafts_of(facts: Facts) -> int | None:
    """Tokens drafted a round: given, or as many acceptances as there are, or what fits into the message."""
    spec = facts.speculation
    if spec.drafts is not None:
        return spec.drafts
    if spec.acceptance:
        return len(spec.acceptance)
    held = tokens_in(facts.model, spec.message_bytes) if spec.message_bytes else None
    return max(0, round(held) - 1) if held else None


def with_verify(facts: Facts, found: Arithmetic) -> Arithmetic:
    """Split the verify step into collectives, idle time and the rest."""
    spec, count = facts.speculation, found.collectives
    collective_ms = spec.collective_ms
    if collective_ms is None and spec.allreduce_us is not None and count:
        collective_ms = count * spec.allreduce_us / 1e3
    allreduce_us = spec.allreduce_us
    if collective_ms is not None and count:
        allreduce_us = collective_ms / count * 1e3
    idle_ms = (spec.idle_share or 0.0) * (spec.verify_ms or 0.0)
    rest = None
    if spec.verify_ms is not None and collective_ms is not None:
        rest = max(0.0, spec.verify_ms - collective_ms - idle_ms)
    return msgspec.structs.replace(
        found, collective_ms=collective_ms, allreduce_us=allreduce_us, idle_ms=idle_ms, compute_ms=rest
    )


def with_base(facts: Facts, found: Arithmetic) -> Arithmetic:
    """Split the step without speculation: by its own numbers, else by the compute of the verify step."""
    count, base_ms = found.collectives, found.base_ms
    if not count or base_ms is None:
        return found
    given = facts.baseline.collective_ms
    collective_ms = given
    if collective_ms is None and found.compute_ms is not None:
        collective_ms = max(0.0, base_ms - found.compute_ms - found.idle_ms)
    if collective_ms is None:
        return found
    return msgspec.structs.replace(
        found,
        base_allreduce_us=collective_ms / count * 1e3,
        base_allreduce_given=given is not None,
        base_compute_ms=max(0.0, base_ms - collective_ms),
    )


def with_tokens(facts: Facts, found: Arithmetic) -> Arithmetic:
    """How long a round is beside its verify step, and how many tokens it yields."""
    spec = facts.speculation
    draft_ms = (0.0, UNKNOWN_DRAFT_SHARE * (found.verify_ms or 0.0))
    if spec.draft_ms is not None:
        draft_ms = (spec.draft_ms,) * 2
    draft_ms = (draft_ms[0] + (spec.overhead_ms or 0.0), draft_ms[1] + (spec.overhead_ms or 0.0))
    given = spec.tokens_per_verify or (expected_tokens(spec.acceptance) if spec.acceptance else None)
    tokens = None if given is None else (given, given)
    if given is None and spec.tok_s is not None and found.verify_ms is not None:
        tokens = by_rate(spec.tok_s, found.verify_ms, draft_ms)
    return msgspec.structs.replace(found, draft_ms=draft_ms, tokens=tokens, tokens_given=given is not None)


def by_rate(tok_s: float, verify_ms: float, draft_ms: tuple[float, float]) -> tuple[float, float]:
    """Tokens that a round yields, by rate and length: for the shortest and for the longest drafting."""
    return tok_s * (verify_ms + draft_ms[0]) / 1e3, tok_s * (verify_ms + draft_ms[1]) / 1e3


def quantities(found: Arithmetic) -> tuple[Quantity, ...]:
    """The numbers worth showing, each with its formula."""
    shown = [*collective_quantities(found), *base_quantities(found), *model_quantities(found)]
    return tuple(shown)


def collective_quantities(found: Arithmetic) -> list[Quantity]:
    """Collectives of the verify step."""
    shown: list[Quantity] = []
    if found.collectives is not None:
        shown.append(say("all-reduces a forward", found.collectives, "", "derived", "layers × all-reduces a layer"))
    if found.verify_bytes is not None and found.verify_tokens is not None:
        how = f"{found.verify_tokens:g} tokens × hidden × bytes an element"
        shown.append(say("message in verify", found.verify_bytes / 1024, "KiB", "derived", how))
    if found.allreduce_us is not None and found.collective_ms is not None:
        how = f"{found.collective_ms:.1f} ms / {found.collectives}"
        shown.append(say("all-reduce in verify", found.allreduce_us, "µs", "derived", how))
    if found.compute_ms is not None and found.verify_ms is not None and found.collective_ms is not None:
        idle = f" - {found.idle_ms:.1f}" if found.idle_ms else ""
        how = f"{found.verify_ms:.1f} - {found.collective_ms:.1f}{idle} ms"
        shown.append(say("compute and memory in verify", found.compute_ms, "ms", "derived", how))
    return shown


def base_quantities(found: Arithmetic) -> list[Quantity]:
    """The step without speculation, and the jump from it to the verify step."""
    shown: list[Quantity] = []
    if found.base_ms is not None:
        shown.append(say("step without speculation", found.base_ms, "ms", "measured", "1000 / tokens per second"))
    if found.base_ms is not None and found.collectives:
        how = f"{found.base_ms:.1f} ms / {found.collectives}, if nothing else took time"
        shown.append(
            say(
                "all-reduce without speculation, at most", found.base_ms / found.collectives * 1e3, "µs", "derived", how
            )
        )
    if found.base_allreduce_us is not None and found.base_ms is not None and found.base_compute_ms is not None:
        confidence: Confidence = "measured" if found.base_allreduce_given else "assumed"
        how = f"({found.base_ms:.1f} - {found.base_compute_ms:.1f} ms) / {found.collectives}"
        how += "" if found.base_allreduce_given else ", if compute is the same for one token"
        shown.append(say("all-reduce without speculation", found.base_allreduce_us, "µs", confidence, how))
    slope = marginal_ns_per_byte(found)
    if slope is not None:
        confidence = "derived" if found.base_allreduce_given else "assumed"
        how = f"{1 / slope:.2g} GB/s for the bytes between both sizes" if slope > 0 else "the larger one is no slower"
        shown.append(say("cost of a further byte", slope, "ns", confidence, how))
    return shown


def model_quantities(found: Arithmetic) -> list[Quantity]:
    """What the model of NCCL and the floors say."""
    shown: list[Quantity] = []
    for cost, place in ((found.base_cost, "without speculation"), (found.verify_cost, "in verify")):
        if cost is not None:
            how = (
                f"NCCL's own model, {cost.algorithm} {cost.protocol}: {cost.latency_us:.1f} + {cost.transfer_us:.1f} µs"
            )
            shown.append(say(f"all-reduce {place}, healthy", cost.us, "µs", "modelled", how))
    for floor, place in ((found.base_floor_ms, "without speculation"), (found.verify_floor_ms, "in verify")):
        if floor is not None:
            shown.append(say(f"weights and products {place}, at least", floor, "ms", "modelled", "roofline"))
    return shown


def marginal_ns_per_byte(found: Arithmetic) -> float | None:
    """What each byte between the two message sizes costs, in nanoseconds; None if a size or a time is unknown."""
    if found.allreduce_us is None or found.base_allreduce_us is None or not found.verify_bytes or not found.base_bytes:
        return None
    more = found.verify_bytes - found.base_bytes
    return (found.allreduce_us - found.base_allreduce_us) * 1e3 / more if more > 0 else None


def say(name: str, value: float, unit: str, confidence: Confidence, how: str) -> Quantity:
    """Short for a quantity."""
    return Quantity(name=name, value=float(value), unit=unit, confidence=confidence, how=how)
