import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from knowngood.model.evidence import AnswerCheck
from knowngood.reason.answers import (
    NEAR_TIE_NATS,
    PROMPTS,
    Comparison,
    Judgement,
    Parting,
    Token,
    check,
    detectable_share,
    first_difference,
    fisher_excess,
    judge_difference,
    measure_gap,
    passes,
)

LIKELY = (Token(piece=" a", logprob=-0.5), Token(piece=" b", logprob=-0.7), Token(piece=" c", logprob=-6.0))


NEAR_WRONG_NEAR: tuple[Judgement, ...] = ("near_tie", "wrong", "near_tie")


def comparison(*judgements: Judgement, prompt: str = "p") -> Comparison:
    found = tuple(Parting(at=n, baseline="x", candidate="y", judgement=one) for n, one in enumerate(judgements))
    return Comparison(prompt=prompt, partings=found)


def counts(same: int, near_ties: int = 0, wrong: int = 0, unjudged: int = 0) -> list[Comparison]:
    return [
        *[comparison()] * same,
        *[comparison("near_tie")] * near_ties,
        *[comparison("wrong")] * wrong,
        *[comparison("unjudged")] * unjudged,
    ]


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_sequences_agree_up_to_their_first_difference(a: list[int], b: list[int]) -> None:
    at = first_difference(a, b)
    if at is None:
        assert a == b
    else:
        assert a[:at] == b[:at]
        assert a[at : at + 1] != b[at : at + 1]


@pytest.mark.parametrize(
    ("token", "distribution", "judgement", "gap"),
    [
        (LIKELY[0], LIKELY, "near_tie", 0.0),
        (LIKELY[1], LIKELY, "near_tie", 0.2),
        (LIKELY[2], LIKELY, "wrong", 5.5),
        (None, LIKELY, "wrong", 5.5),
        (None, LIKELY[:2], "unjudged", 0.2),
        (None, (), "unjudged", None),
    ],
)
def test_a_difference_is_judged_by_the_baselines_own_probabilities(
    token: Token | None, distribution: tuple[Token, ...], judgement: str, gap: float | None
) -> None:
    assert judge_difference(token, distribution) == judgement
    assert measure_gap(token, distribution) == (gap if gap is None else pytest.approx(gap))


def test_the_limit_itself_is_a_near_tie_and_what_lies_beyond_is_wrong() -> None:
    best = Token(piece="x", logprob=0.0)
    at, beyond = (Token(piece="y", logprob=-NEAR_TIE_NATS - more) for more in (0, 0.001))
    assert judge_difference(at, (best, at)) == "near_tie"
    assert judge_difference(beyond, (best, beyond)) == "wrong"


def test_one_wrong_token_after_a_near_tie_makes_the_answer_wrong() -> None:
    assert comparison().judgement == "same"
    partings: tuple[Judgement, ...]
    for partings in itertools.permutations(NEAR_WRONG_NEAR):
        assert comparison(*partings).judgement == "wrong"
    assert comparison("near_tie", "unjudged").judgement == "unjudged"


def test_a_check_counts_each_answer_once_and_shows_the_worst_first() -> None:
    found = check(counts(14, near_ties=3, wrong=2, unjudged=1), counts(19, near_ties=1))
    assert found.asked == found.same + found.near_ties + found.wrong + found.unjudged == 20
    assert (found.same, found.near_ties, found.wrong, found.unjudged) == (14, 3, 2, 1)
    assert (found.own_asked, found.own_mismatches, found.own_wrong) == (20, 1, 0)
    assert [one.split(":")[0] for one in found.examples] == ["wrong", "wrong", "unjudged"]


@pytest.mark.parametrize(("asked", "share"), [(0, 1.0), (1, 0.95), (20, 0.1391), (200, 0.01487)])
def test_the_power_is_the_rule_of_three_in_its_exact_form(asked: int, share: float) -> None:
    assert detectable_share(asked) == pytest.approx(share, rel=1e-3)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_fisher_agrees_with_scipy(asked: int, own_asked: int, data: st.DataObject) -> None:
    bad, own = data.draw(st.integers(0, asked)), data.draw(st.integers(0, own_asked))
    table = np.array([[bad, asked - bad], [own, own_asked - own]])
    assert fisher_excess(bad, asked, own, own_asked) == pytest.approx(
        stats.fisher_exact(table, alternative="greater").pvalue
    )


@pytest.mark.parametrize(
    ("candidate", "own", "same", "equivalent"),
    [
        (counts(20), counts(20), True, True),
        (counts(20), [], True, True),
        (counts(19, near_ties=1), counts(20), False, True),
        (counts(0, near_ties=20), counts(20), False, True),
        (counts(19, wrong=1), counts(20), False, False),
        (counts(19, wrong=1), [], False, False),
        (counts(19, unjudged=1), counts(20), False, False),
        # The baseline is unsteady at near ties: no excuse for a clear difference.
        (counts(19, wrong=1), counts(10, near_ties=10), True, False),
        (counts(5, near_ties=15), counts(19, near_ties=1), False, True),
        # The baseline itself answers clearly otherwise now and then: as often is excused, more often is not.
        (counts(17, wrong=3), counts(18, wrong=2), True, True),
        (counts(10, wrong=10), counts(18, wrong=2), False, False),
        # Nobody can judge, but the baseline differs from itself as often.
        (counts(10, unjudged=10), counts(10, unjudged=10), True, True),
        ([], [], False, False),
    ],
)
def test_what_passes(candidate: list[Comparison], own: list[Comparison], *, same: bool, equivalent: bool) -> None:
    found = check(candidate, own)
    assert passes(found, "same")[0] is same
    assert passes(found, "equivalent")[0] is equivalent


def test_a_pass_states_its_power_and_a_failure_what_was_seen() -> None:
    good, why = passes(check(counts(18, near_ties=2)), "equivalent")
    assert good
    assert "14%" in why
    assert "2 at near ties" in why
    good, why = passes(check(counts(18, wrong=2)), "equivalent")
    assert not good
    assert why.startswith("2 of 20 answers are wrong")


def test_an_unsteady_baseline_never_excuses_what_a_steady_one_would_not_have_passed() -> None:
    found = AnswerCheck(asked=20, same=0, wrong=20, own_asked=20, own_mismatches=1, own_wrong=1, detects=0.14)
    assert not passes(found, "equivalent")[0]
    assert not passes(found, "same")[0]


def test_the_default_prompts_are_twenty_different_ones() -> None:
    assert len(set(PROMPTS)) == 20
