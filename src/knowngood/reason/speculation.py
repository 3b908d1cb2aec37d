"""When does speculative decoding pay? Tokens a round, break-even points, and what moves them most. Pure.

A round drafts ``g`` tokens and verifies them in one forward of ``g + 1`` tokens. It yields E tokens, between 1 and
g + 1, and takes T_draft + T_verify + T_overhead. Without speculation a token takes T_base. Sources: Leviathan et al.
2023 (arXiv 2211.17192), section 3; the rest is algebra on the two rates.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

SEARCH_STEPS = 60
TENTH = 0.1


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """A round of speculation beside a step without it, at equal transport.

    Attributes:
        tokens: Tokens that a round yields, the bonus token included.
        drafts: Tokens drafted a round.
        compute_ms: Verify step without its collectives, in milliseconds.
        base_compute_ms: Step without speculation, without its collectives, in milliseconds.
        collectives: All-reduces of a forward.
        allreduce_us: Time of one in the verify step, in microseconds.
        base_allreduce_us: Time of one in a step without speculation, in microseconds.
        draft_ms: Drafting and everything else of a round, in milliseconds.
    """

    tokens: float
    drafts: int
    compute_ms: float
    base_compute_ms: float
    collectives: int
    allreduce_us: float
    base_allreduce_us: float
    draft_ms: float = 0.0

    @property
    def verify_ms(self) -> float:
        """Length of the verify step, in milliseconds."""
        return self.compute_ms + self.collectives * self.allreduce_us / 1e3

    @property
    def cycle_ms(self) -> float:
        """Length of a round, in milliseconds."""
        return self.verify_ms + self.draft_ms

    @property
    def base_ms(self) -> float:
        """Length of a step without speculation, in milliseconds."""
        return self.base_compute_ms + self.collectives * self.base_allreduce_us / 1e3

    @property
    def tok_s(self) -> float:
        """Tokens per second with speculation."""
        return self.tokens / self.cycle_ms * 1e3

    @property
    def base_tok_s(self) -> float:
        """Tokens per second without it."""
        return 1e3 / self.base_ms

    @property
    def speedup(self) -> float:
        """Rate with speculation by the rate without."""
        return self.tok_s / self.base_tok_s


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """Where speculation starts to pay.

    Attributes:
        tokens: Tokens a round must yield.
        acceptance: Constant conditional acceptance that yields them; None if no acceptance does.
        allreduce_us: Slowest all-reduce of the verify step at which it still pays, in microseconds; negative if compute
            and drafting alone take too long.
        possible: Whether that many tokens can come out of so many drafts.
    """

    tokens: float
    acceptance: float | None
    allreduce_us: float
    possible: bool


class Influence(msgspec.Struct, frozen=True, kw_only=True):
    """What a quantity does to the rate with speculation.

    Attributes:
        quantity: Its name.
        gain: Change of the rate, as a ratio minus one, when the quantity gets a tenth better.
    """

    quantity: str
    gain: float


def expected_tokens(acceptance: Sequence[float]) -> float:
    """Tokens that a round yields: 1 + Σ a_i, where a_i is the probability that position i is reached *and* accepted."""
    return 1 + sum(acceptance)


def chain_tokens(acceptance: float, drafts: int) -> float:
    """Tokens that a round yields if every draft is accepted with one probability, given that it is reached.

    Source: Leviathan et al. 2023, equation 1: (1 - a^(g+1)) / (1 - a).
    """
    return sum(acceptance**power for power in range(drafts + 1))


def acceptance_for(tokens: float, drafts: int) -> float | None:
    """Constant conditional acceptance that yields ``tokens``; None beyond g + 1. The inverse of ``chain_tokens``."""
    if tokens > drafts + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if chain_tokens(middle, drafts) < tokens else (low, middle)
    return high if tokens > 1 else 0.0


def break_even_tokens(cycle_ms: float, base_ms: float) -> float:
    """Tokens that a round must yield so that it is as fast as steps without speculation."""
    return cycle_ms / base_ms


def break_even(round_: Round) -> Break:
    """Where speculation starts to pay, with the rate without it as it stands."""
    tokens = break_even_tokens(round_.cycle_ms, round_.base_ms)
    left_ms = round_.tokens * round_.base_ms - round_.draft_ms - round_.compute_ms
    return Break(
        tokens=tokens,
        acceptance=acceptance_for(tokens, round_.drafts),
        allreduce_us=left_ms / round_.collectives * 1e3 if round_.collectives else float("inf"),
        possible=tokens <= round_.drafts + 1,
    )


def influences(round_: Round) -> tuple[Influence, ...]:
    """What a tenth of each quantity is worth, the largest first."""
    better = {
        "tokens a round": msgspec.structs.replace(round_, tokens=round_.tokens * (1 + TENTH)),
        "all-reduce": msgspec.structs.replace(round_, allreduce_us=round_.allreduce_us * (1 - TENTH)),
        "compute and memory": msgspec.structs.replace(round_, compute_ms=round_.compute_ms * (1 - TENTH)),
        "drafting": msgspec.structs.replace(round_, draft_ms=round_.draft_ms * (1 - TENTH)),
    }
    found = [Influence(quantity=name, gain=one.tok_s / round_.tok_s - 1) for name, one in better.items()]
    return tuple(sorted(found, key=lambda one: -one.gain))


def is_decreasing(acceptance: Sequence[float]) -> bool:
    """Whether these can be probabilities that a position is reached and accepted: none exceeds the one before."""
    return all(0 <= one <= 1 for one in acceptance) and all(first >= then for first, then in pairwise(acceptance))
