"""The table of the founding case, and the algebra behind it against brute force."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.reason.speculation import (
    Round,
    acceptance_for,
    break_even,
    break_even_tokens,
    chain_tokens,
    expected_tokens,
    influences,
    is_decreasing,
)

FOUNDING = Round(
    tokens=1.95,
    drafts=2,
    compute_ms=6.0,
    base_compute_ms=6.0,
    collectives=122,
    allreduce_us=24_000 / 122,
    base_allreduce_us=(1000 / 82 - 6) * 1000 / 122,
    draft_ms=2.0,
)


@pytest.mark.parametrize(
    ("draft_ms", "tokens", "acceptance"), [(0, 2.46, 0.81), (1, 2.54, 0.84), (2, 2.62, 0.87), (3, 2.71, 0.90)]
)
def test_break_even_of_the_founding_case(draft_ms: float, tokens: float, acceptance: float) -> None:
    found = break_even(msgspec.structs.replace(FOUNDING, draft_ms=draft_ms))
    assert found.tokens == pytest.approx(tokens, abs=0.005)
    assert found.acceptance == pytest.approx(acceptance, abs=0.005)


@pytest.mark.parametrize(("draft_ms", "acceptance"), [(0, 0.68), (2, 0.72)])
def test_a_deeper_draft_in_the_same_time_needs_less_acceptance(draft_ms: float, acceptance: float) -> None:
    deeper = msgspec.structs.replace(FOUNDING, drafts=3, draft_ms=draft_ms)
    assert break_even(deeper).acceptance == pytest.approx(acceptance, abs=0.005)


def test_collective_time_at_which_two_tokens_a_round_break_even() -> None:
    two = msgspec.structs.replace(FOUNDING, tokens=2.0)
    assert break_even(two).allreduce_us == pytest.approx(134, abs=0.5)
    at = msgspec.structs.replace(two, allreduce_us=break_even(two).allreduce_us)
    assert at.speedup == pytest.approx(1)


@pytest.mark.parametrize(("us", "rate"), [(50, 138.3), (100, 96.5)])
def test_rate_of_the_founding_case_at_a_faster_all_reduce(us: float, rate: float) -> None:
    assert msgspec.structs.replace(FOUNDING, allreduce_us=us).tok_s == pytest.approx(rate, abs=0.1)


def test_the_baseline_moves_too() -> None:
    assert msgspec.structs.replace(FOUNDING, base_allreduce_us=25).base_tok_s == pytest.approx(110, abs=0.6)


def test_published_acceptance_of_a_draft_for_this_family() -> None:
    positions = (0.645, 0.393, 0.240)
    assert [round(expected_tokens(positions[:depth]), 2) for depth in (1, 2, 3)] == [1.65, 2.04, 2.28]


@given(st.floats(0, 1), st.integers(1, 12))
def test_a_chain_is_the_sum_of_its_positions(acceptance: float, drafts: int) -> None:
    positions = [acceptance ** (at + 1) for at in range(drafts)]
    assert chain_tokens(acceptance, drafts) == pytest.approx(expected_tokens(positions))
    if acceptance < 0.999:
        assert chain_tokens(acceptance, drafts) == pytest.approx((1 - acceptance ** (drafts + 1)) / (1 - acceptance))


@given(st.floats(0.001, 1), st.integers(1, 12))
def test_acceptance_is_found_again(acceptance: float, drafts: int) -> None:
    found = acceptance_for(chain_tokens(acceptance, drafts), drafts)
    assert found is not None
    assert chain_tokens(found, drafts) == pytest.approx(chain_tokens(acceptance, drafts))


def test_more_tokens_than_drafts_allow_are_hopeless() -> None:
    slow = msgspec.structs.replace(FOUNDING, draft_ms=10.0)
    assert break_even(slow).acceptance is None
    assert not break_even(slow).possible
    assert acceptance_for(0.5, 2) == 0


def test_break_even_is_where_both_rates_meet() -> None:
    tokens = break_even_tokens(FOUNDING.cycle_ms, FOUNDING.base_ms)
    assert msgspec.structs.replace(FOUNDING, tokens=tokens).speedup == pytest.approx(1)


def test_a_tenth_of_what_matters_most_comes_first() -> None:
    found = influences(FOUNDING)
    assert [one.quantity for one in found] == ["tokens a round", "all-reduce", "compute and memory", "drafting"]
    assert found[0].gain == pytest.approx(0.1)
    assert found[1].gain == pytest.approx(32 / 29.6 - 1)


def test_acceptance_that_rises_is_conditional() -> None:
    assert is_decreasing((0.6, 0.4, 0.4))
    assert not is_decreasing((0.6, 0.7))
    assert not is_decreasing((1.2,))
    assert is_decreasing(())
