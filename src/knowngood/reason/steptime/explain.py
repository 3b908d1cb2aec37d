"""One value that says it all: budget, principal cost, economics of speculation, contradictions, ladder."""

from collections.abc import Sequence

import msgspec

from knowngood.model.profile import Catalogue, Collective, StepProfile
from knowngood.model.steptime import Facts, WhatIf
from knowngood.reason.speculation import Break, Influence, Round, break_even, break_even_tokens, influences
from knowngood.reason.steptime.arithmetic import Arithmetic, Quantity, quantities, work_out
from knowngood.reason.steptime.budget import Budget, budget
from knowngood.reason.steptime.checks import Contradiction, contradictions
from knowngood.reason.steptime.ladder import Rung
from knowngood.reason.steptime.rungs import ladder

SUPPOSED_US = (30.0, 50.0, 100.0)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Smallest and largest value of something; both the same where it is known."""

    low: float
    high: float


class Supposed(msgspec.Struct, frozen=True, kw_only=True):
    """Rates if something were otherwise, with and without speculation alike.

    Attributes:
        what: What is supposed.
        tok_s: Tokens per second with speculation.
        base_tok_s: Tokens per second without it.
        saved_ms: What the verify step gets shorter, in milliseconds.
        pays: Whether speculation would pay, at both ends.
    """

    what: str
    tok_s: Span
    base_tok_s: float
    saved_ms: float
    pays: bool


class Economics(msgspec.Struct, frozen=True, kw_only=True):
    """Whether speculation pays.

    Attributes:
        tokens: Tokens that a round yields.
        tokens_given: They were measured; else they follow from rate and length of a round.
        drafts: Tokens drafted a round.
        tok_s: Tokens per second with speculation.
        base_tok_s: Tokens per second without it.
        speedup: The one by the other.
        break_even: For the shortest and for the longest drafting.
        deeper: Break-even with one draft more at the same length of the round.
        influences: What a tenth of each quantity is worth, the largest first.
        supposed: Rates at other costs of an all-reduce.
    """

    tokens: Span
    tokens_given: bool
    drafts: int
    tok_s: Span
    base_tok_s: float
    speedup: Span
    break_even: tuple[Break, Break]
    deeper: Break
    influences: tuple[Influence, ...]
    supposed: tuple[Supposed, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step's time goes, and what to try next.

    Attributes:
        budget: Lines that add up; None if no length is known.
        quantities: The arithmetic, each number with its formula.
        economics: Whether speculation pays; None if it is not used, or too little is known.
        contradictions: What does not fit.
        collectives: Matched across ranks, from profiles.
        ladder: What to try, the cheapest first.
        supposed: Rates under ``--what-if``; None without.
        missing: What would have to be known for more, in words.
        notes: What the readers saw.
    """

    budget: Budget | None
    quantities: tuple[Quantity, ...]
    economics: Economics | None
    contradictions: tuple[Contradiction, ...]
    collectives: tuple[Collective, ...]
    ladder: tuple[Rung, ...]
    supposed: Supposed | None
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def explain(
    facts: Facts,
    catalogue: Catalogue,
    *,
    profiles: Sequence[StepProfile] = (),
    what_if: WhatIf | None = None,
    notes: Sequence[str] = (),
) -> Explanation:
    """Explain a step.

    Args:
        facts: What is known.
        catalogue: Knobs with dangers and proofs.
        profiles: Steps seen in profiles, the most trusted first.
        what_if: Supposed numbers.
        notes: What the readers want said.
    """
    found = work_out(facts)
    drawn = budget(facts, found, profiles)
    return Explanation(
        budget=drawn,
        quantities=quantities(found),
        economics=economics(found),
        contradictions=contradictions(facts, found),
        collectives=tuple(one for profile in profiles[:1] for one in profile.collectives),
        ladder=ladder(facts, found, drawn, catalogue) if drawn else (),
        supposed=suppose(found, what_if, describe(what_if)) if what_if else None,
        missing=missing(facts, found),
        notes=(*notes, *(note for profile in profiles for note in (seen(profile), *profile.notes))),
    )


def economics(found: Arithmetic) -> Economics | None:
    """Whether speculation pays; None if too little is known."""
    short, long = found.round(end=0), found.round(end=1)
    if short is None or long is None:
        return None
    rows = {*SUPPOSED_US, round(found.verify_cost.us, 1)} if found.verify_cost else {*SUPPOSED_US}
    return Economics(
        tokens=span(short.tokens, long.tokens),
        tokens_given=found.tokens_given,
        drafts=short.drafts,
        tok_s=span(short.tok_s, long.tok_s),
        base_tok_s=short.base_tok_s,
        speedup=span(short.speedup, long.speedup),
        break_even=(break_even(short), break_even(long)),
        deeper=break_even(msgspec.structs.replace(short, drafts=short.drafts + 1)),
        influences=influences(long),
        supposed=tuple(
            row
            for us in sorted(rows)
            if (row := suppose(found, WhatIf(allreduce_us=us), f"all-reduce {us:g} µs")) is not None
        ),
    )


def suppose(found: Arithmetic, what_if: WhatIf, what: str) -> Supposed | None:
    """Rates under a supposition; None if too little is known."""
    rounds = [(found.round(end=end), found.round(end=end, what_if=what_if)) for end in (0, 1)]
    pairs = [(now, then) for now, then in rounds if now is not None and then is not None]
    if not pairs:
        return None
    return Supposed(
        what=what,
        tok_s=span(*(then.tok_s for _, then in pairs)),
        base_tok_s=pairs[0][1].base_tok_s,
        saved_ms=pairs[0][0].verify_ms - pairs[0][1].verify_ms,
        pays=all(pays(then) for _, then in pairs),
    )


def pays(round_: Round) -> bool:
    """Whether a round yields more tokens than its time is worth without speculation."""
    return round_.tokens > break_even_tokens(round_.cycle_ms, round_.base_ms)


def span(*values: float) -> Span:
    """Smallest and largest."""
    return Span(low=min(values), high=max(values))


def seen(profile: StepProfile) -> str:
    """What a profile is."""
    return f"{profile.source}: {profile.ranks} ranks, {profile.steps} steps told apart by {profile.bounded_by}"


def describe(what_if: WhatIf) -> str:
    """A supposition in words."""
    given = {name: getattr(what_if, name) for name in what_if.__struct_fields__}
    return ", ".join(f"{name} = {value:g}" for name, value in given.items() if value is not None)


def missing(facts: Facts, found: Arithmetic) -> tuple[str, ...]:
    """What would have to be known for more."""
    wanted = {
        "model.layers and model.hidden, or model.config: how many collectives, of what size": found.base_bytes is None
        or found.collectives is None,
        "hardware.gpus and hardware.link: what an all-reduce should cost": found.base_bytes is not None
        and found.base_cost is None,
        "hardware.memory_gb_s and model.config: what weights and products take at least": found.base_floor_ms is None,
        "baseline.tok_s: what a step takes without speculation": found.base_ms is None,
        "speculation.verify_ms and speculation.collective_ms, or a trace: whether speculation pays": (
            facts.speculation.tok_s is not None and found.round() is None
        ),
        "speculation.draft_ms: what drafting takes": found.verify_ms is not None and facts.speculation.draft_ms is None,
    }
    return tuple(text for text, is_missing in wanted.items() if is_missing)
