"""What was learned, where it holds, and what would re-open it."""

from typing import Literal

import msgspec

Sign = Literal["helps", "hurts", "no_effect", "impossible", "undecided"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of knowledge.

    Attributes:
        id: ``f0001``, unique in a lab.
        claim: In words.
        sign: What the change does.
        change_key: Digest of the change set in normal form: the same change under another name is recognised by it.
        scope: Fact name to value that held when it was learned (engine, version, model, CPU).
        evidence: Ids of the trials behind it.
        quote: Decisive log line, for a failure.
        reopens: What would re-open it.
        effect: Ratio minus one, if it was measured.
        member_keys: Digests of the members that make it impossible: whatever else a change set has, all of these
            together are covered; empty means exactly the set of ``change_key``.
        within: What it is bound to, in words, beyond ``scope``.
    """

    id: str
    claim: str
    sign: Sign
    change_key: str
    scope: dict[str, str]
    evidence: tuple[str, ...]
    quote: str = ""
    reopens: str = ""
    effect: float | None = None
    member_keys: tuple[str, ...] = ()
    within: str = ""
