"""Are the candidate's greedy answers the baseline's? Pure; the asking is done by ``knowngood.loads.answers``.

Speculation, another batch size or another kernel may change greedy text without being wrong: sums are rounded in
another order, and where two tokens are almost equally likely the other one wins. So a difference is judged by the
baseline's own log-probabilities at the differing token. ``docs/explanation/answers.md`` has the measurements behind the
numbers.
"""

import math
from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec

from knowngood.model.evidence import AnswerCheck

Judgement = Literal["near_tie", "wrong", "unjudged"]
Mode = Literal["same", "equivalent"]

NEAR_TIE_NATS = 0.5
CONFIDENCE = 0.95
EXCUSE_LEVEL = 0.05
SHOWN = 3
EXCERPT = 60


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said to one prompt.

    Attributes:
        prompt: The prompt.
        text: The answer.
        asked: Number of tokens asked for.
        ids: Token ids, if the server gives them.
        pieces: Text of each token, if the server gives them.
        count: Number of tokens the server says it produced; None if it does not say.
    """

    prompt: str
    text: str
    asked: int
    ids: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    count: int | None = None


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One possible next token.

    Attributes:
        piece: Its text.
        logprob: Natural logarithm of its probability.
        id: Its number in the vocabulary, if the server gives it.
    """

    piece: str
    logprob: float
    id: int | None = None


TopK = tuple[Token, ...]
"""The likeliest next tokens, likeliest first; empty if the server gives no log-probabilities."""


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """One place where the candidate went another way than the baseline.

    Attributes:
        at: Tokens (characters, if token ids are not known) that stood before it.
        baseline: What the baseline says there.
        candidate: What the candidate says there.
        judgement: What the baseline's distribution makes of it.
        gap: Log-probability that the candidate's token lies below the likeliest one, in nats; a lower bound if
            the token is not among the likeliest; None if it could not be measured.
    """

    at: int
    baseline: str
    candidate: str
    judgement: Judgement
    gap: float | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One answer held against the baseline's.

    Attributes:
        prompt: The prompt.
        partings: Where they part, in order; after a near tie the baseline is asked to go on from the other's text.
    """

    prompt: str
    partings: tuple[Parting, ...] = ()

    @property
    def judgement(self) -> Literal["same"] | Judgement:
        """The worst of the partings."""
        found = {parting.judgement for parting in self.partings}
        for worst in ("wrong", "unjudged", "near_tie"):
            if worst in found:
                return worst
        return "same"


def first_difference(a: Sequence[object], b: Sequence[object]) -> int | None:
    """Find where two sequences part.

    Args:
        a: Tokens or text.
        b: Tokens or text.

    Returns:
        Index of the first differing element, or the shorter length if one starts with the other; None if equal.
    """
    for at, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return at
    return None if len(a) == len(b) else min(len(a), len(b))


def measure_gap(token: Token | None, distribution: TopK) -> float | None:
    """How much less likely than the likeliest token the baseline takes a token to be.

    Args:
        token: The candidate's token as found in the distribution; None if it is not among the likeliest.
        distribution: The baseline's next-token distribution at that place.

    Returns:
        Nats, 0 or more; for None the gap to the least likely one listed, a lower bound. None without a distribution.
    """
    if not distribution:
        return None
    floor = min(one.logprob for one in distribution) if token is None else token.logprob
    return max(one.logprob for one in distribution) - floor


def judge_difference(token: Token | None, distribution: TopK, *, near_tie: float = NEAR_TIE_NATS) -> Judgement:
    """Judge one differing token by what the baseline thinks of it.

    Args:
        token: The candidate's token as found in the distribution; None if it is not among the likeliest.
        distribution: The baseline's next-token distribution at that place.
        near_tie: Largest gap that rounding explains, in nats.

    Returns:
        The judgement; ``unjudged`` without a distribution, or if it lacks the token and ends above the limit.
    """
    gap = measure_gap(token, distribution)
    if gap is None:
        return "unjudged"
    if gap > near_tie:
        return "wrong"
    return "unjudged" if token is None else "near_tie"


def check(candidate: Sequence[Comparison], own: Sequence[Comparison] = ()) -> AnswerCheck:
    """Sum up a check.

    Args:
        candidate: The candidate's answers against the baseline's, one a prompt.
        own: The baseline's answers against its own earlier ones.

    Returns:
        Counts, power and examples.
    """
    judged = [one.judgement for one in candidate]
    theirs = [one.judgement for one in own]
    return AnswerCheck(
        asked=len(candidate),
        same=judged.count("same"),
        near_ties=judged.count("near_tie"),
        wrong=judged.count("wrong"),
        unjudged=judged.count("unjudged"),
        own_asked=len(own),
        own_mismatches=len(own) - theirs.count("same"),
        own_wrong=theirs.count("wrong"),
        detects=detectable_share(len(candidate)),
        examples=tuple(_describe(one) for one in sorted(candidate, key=_severity) if one.partings)[:SHOWN],
    )


def detectable_share(asked: int) -> float:
    """Smallest share of wrong answers of which ``asked`` prompts show at least one with 95 % probability.

    Args:
        asked: Number of prompts, 0 or more.

    Returns:
        Share from 0 to 1; 1 if nothing was asked.

    Source: the rule of three in its exact form; Hanley & Lippman-Hand 1983, "If nothing goes wrong, is everything all
    right?".
    """
    return 1 - (1 - CONFIDENCE) ** (1 / asked) if asked else 1.0


def passes(check: AnswerCheck, mode: Mode) -> tuple[bool, str]:
    """Decide whether the answers are good enough.

    Args:
        check: What was counted.
        mode: ``same``: every text is the baseline's. ``equivalent``: texts part at near ties only. Either way the
            baseline's own unsteadiness is an excuse, if it was seen and is as frequent.

    Returns:
        The decision, and why in one sentence.
    """
    if not check.asked:
        return False, "no prompt was asked, so nothing is known about the answers"
    match mode:
        case "same":
            bad, own, what = check.asked - check.same, check.own_mismatches, "differ from the baseline's"
        case "equivalent":
            bad, what = check.wrong + check.unjudged, "are wrong"
            own = check.own_mismatches if check.unjudged else check.own_wrong
            if check.unjudged:
                what = "are wrong or differ in a way that could not be judged"
        case _:
            assert_never(mode)
    power = f"a share of {check.detects:.0%} wrong answers would have been seen with {CONFIDENCE:.0%} probability"
    if not bad:
        near = f" ({check.near_ties} at near ties)" if check.near_ties and mode == "equivalent" else ""
        return True, f"0 of {check.asked} answers {what}{near}; {power}"
    seen = f"{bad} of {check.asked} answers {what}"
    if not own:
        return False, f"{seen}; the baseline agrees with itself"
    p = fisher_excess(bad, check.asked, own, check.own_asked)
    against = f"the baseline itself has {own} of {check.own_asked} (one-sided Fisher p = {p:.2g})"
    return p >= EXCUSE_LEVEL, f"{seen}; {against}"


def fisher_excess(bad: int, asked: int, own: int, own_asked: int) -> float:
    """One-sided p-value of Fisher's exact test that the candidate's share is not above the baseline's.

    Args:
        bad: Differing answers of the candidate.
        asked: Answers of the candidate.
        own: Differing answers of the baseline.
        own_asked: Answers of the baseline.

    Returns:
        Probability of ``bad`` or more by chance, from 0 to 1.

    Source: Fisher 1935, "The logic of inductive inference".
    """
    total, hits = asked + own_asked, bad + own
    ways = (math.comb(asked, x) * math.comb(own_asked, hits - x) for x in range(bad, min(asked, hits) + 1))
    return sum(ways) / math.comb(total, hits)


def _severity(comparison: Comparison) -> int:
    return ("wrong", "unjudged", "near_tie", "same").index(comparison.judgement)


def _describe(comparison: Comparison) -> str:
    parting = next(one for one in comparison.partings if one.judgement == comparison.judgement)
    gap = "" if parting.gap is None else f", {parting.gap:.2g} nats below the likeliest"
    prompt = comparison.prompt if len(comparison.prompt) <= EXCERPT else comparison.prompt[: EXCERPT - 1] + "…"
    return (
        f"{comparison.judgement}: {prompt!r} at {parting.at}: "
        f"{parting.candidate!r} instead of {parting.baseline!r}{gap}"
    )


PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea, there lived",
    "def fibonacci(n):\n    ",
    "The three laws of thermodynamics are:\n1.",
    "Question: What is 17 plus 25?\nAnswer:",
    "def load(path):\n    with open(path) as file:\n        return json.load(file)\n\ndef save(path, data):\n    ",
    "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday, Tuesday,",
    "Dear Sir or Madam,\n\nI am writing to complain about",
    "Water boils at 100 degrees Celsius because",
    "SELECT name, price FROM products WHERE",
    "A recipe for pancakes:\n\nIngredients:\n-",
    '{"name": "Ada", "age": 36}\n{"name": "Alan", "age": 41}\n{"name": "Grace",',
    "In 1969, the first humans landed on the Moon. The mission was",
    "Translate to French: 'Good morning, how are you?' ->",
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over",
    "Photosynthesis is the process by which",
    "| Country | Capital |\n|---|---|\n| Italy | Rome |\n| Spain | Madrid |\n|",
    "My favourite book is about a detective who",
    "1, 1, 2, 3, 5, 8, 13,",
    "To install the package, first open a terminal and",
)
"""Default prompts: prose, code, tables, arithmetic and repetition; speculation acts on some of them only."""
