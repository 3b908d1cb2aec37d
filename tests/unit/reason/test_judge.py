import math
import subprocess
import sys
from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowngood.errors import UsageError
from knowngood.model.verdict import Verdict
from knowngood.reason.judge import Judge

TYPICAL_NOISE = (0.031, -0.044, 0.012, -0.027, 0.058, -0.009, 0.022, -0.036)
SLOT_S = 180.0

Measure = Callable[[int], float]


def play(judge: Judge, candidate: Measure, baseline: Measure) -> Verdict:
    launch = 0
    while (arm := judge.next_arm) is not None:
        value = candidate(launch) if arm == "candidate" else baseline(launch)
        judge.add(arm=arm, value=value, at=launch * SLOT_S, verified=True)
        launch += 1
    assert judge.verdict is not None
    return judge.verdict


def steady(value: float) -> Measure:
    return lambda launch: value * (1 + 0.01 * math.sin(7 * launch))


def test_order_is_c_b_b_c() -> None:
    judge = Judge(profile="thorough", noise=TYPICAL_NOISE)
    seen: list[str] = []
    for launch in range(8):
        arm = judge.next_arm
        assert arm is not None
        seen.append(arm[0])
        judge.add(arm=arm, value=105 if arm == "candidate" else 100, at=launch * SLOT_S)
    assert "".join(seen) == "cbbccbbc"


def test_clear_winner_is_kept_after_two_pairs() -> None:
    verdict = play(Judge(noise=TYPICAL_NOISE), steady(150), steady(100))
    assert (verdict.decision, verdict.reason, verdict.pairs, verdict.launches) == ("keep", "better", 2, 4)
    assert verdict.estimate == pytest.approx(0.5, abs=0.02)
    assert verdict.why.startswith("proven better: +")


def test_tripled_throughput_is_reported_as_it_was_measured() -> None:
    verdict = play(Judge(noise=TYPICAL_NOISE), steady(300), steady(100))
    assert verdict.launches == 4
    assert verdict.estimate == pytest.approx(2.0, abs=0.05)


def test_lower_is_better_for_latencies() -> None:
    judge = Judge(direction="lower", noise=TYPICAL_NOISE)
    verdict = play(judge, steady(50), steady(100))
    assert verdict.decision == "keep"
    assert verdict.estimate == pytest.approx(1.0, abs=0.04)


def test_regression_is_dropped_after_one_launch_with_a_ledger() -> None:
    ledger = [(-400.0 * age, 100.0) for age in range(1, 6)]
    verdict = play(Judge(noise=TYPICAL_NOISE, ledger=ledger), steady(85), steady(100))
    assert (verdict.decision, verdict.reason, verdict.launches, verdict.pairs) == ("revert", "regression", 1, 0)


def test_regression_needs_a_pair_without_a_ledger() -> None:
    verdict = play(Judge(noise=TYPICAL_NOISE), steady(80), steady(100))
    assert (verdict.decision, verdict.reason, verdict.launches) == ("revert", "regression", 2)


def test_small_gain_on_a_quiet_machine_is_not_worthwhile() -> None:
    quiet = [difference / 20 for difference in TYPICAL_NOISE]
    judge = Judge(noise=quiet, worthwhile=0.05)
    verdict = play(judge, lambda _: 100.5, lambda _: 100.0)
    assert (verdict.decision, verdict.reason) == ("revert", "not_worthwhile")


def test_small_gain_on_a_noisy_machine_is_undecided() -> None:
    verdict = play(Judge(noise=TYPICAL_NOISE), lambda _: 100.5, lambda _: 100.0)
    assert (verdict.decision, verdict.reason) == ("inconclusive", "undecided")
    assert verdict.high is not None
    assert verdict.high > 0.02
    assert "this design finds effects from" in verdict.why


def test_without_history_two_agreeing_pairs_are_no_proof() -> None:
    assert play(Judge(), steady(150), steady(100)).pairs > 2


def test_profile_caps_the_launches() -> None:
    verdict = play(Judge(profile="quick", noise=TYPICAL_NOISE), steady(103.2), steady(100))
    assert (verdict.decision, verdict.launches, verdict.pairs) == ("inconclusive", 12, 6)


def test_low_first_run_asks_for_two_more_runs_of_the_launch() -> None:
    ledger = [(-400.0 * age, 100.0) for age in range(1, 6)]
    judge = Judge(noise=TYPICAL_NOISE, ledger=ledger)
    assert not judge.same_launch
    judge.add(arm="candidate", value=75, at=0)
    assert judge.same_launch
    assert judge.next_arm == "candidate"
    judge.add(arm="candidate", value=106, at=60)
    assert judge.same_launch
    judge.add(arm="candidate", value=104, at=120)
    assert not judge.same_launch
    assert judge.next_arm == "baseline"
    assert judge.verdict is None


def test_verified_value_is_not_questioned() -> None:
    judge = Judge(noise=TYPICAL_NOISE, ledger=[(-100, 100.0)])
    judge.add(arm="candidate", value=75, at=0, verified=True)
    assert not judge.same_launch
    assert judge.verdict is not None


def test_half_a_pair_ends_nothing_where_it_does_not_count() -> None:
    judge = Judge(noise=TYPICAL_NOISE, ledger=[(-100, 100.0)], half_pair_counts=False)
    judge.add(arm="candidate", value=75, at=0, verified=True)
    assert judge.next_arm == "baseline"


def test_verdict_of_half_a_pair_is_taken_back_when_the_pair_is_finished() -> None:
    judge = Judge(noise=TYPICAL_NOISE, ledger=[(-100, 100.0)])
    judge.add(arm="candidate", value=75, at=0, verified=True)
    judge.add(arm="baseline", value=60, at=SLOT_S, verified=True)
    assert judge.verdict is None or judge.verdict.launches == 2


def test_candidate_that_looks_like_a_winner_gets_its_first_pair() -> None:
    noise = [10 * x for x in TYPICAL_NOISE]
    judge = Judge(noise=noise, ledger=[(-100.0 * age, 100.0) for age in range(1, 6)])
    judge.add(arm="candidate", value=103, at=0)
    assert judge.next_arm == "baseline"


def test_effect_so_far_is_unknown_until_both_arms_were_seen() -> None:
    judge = Judge(noise=TYPICAL_NOISE)
    assert judge.effect == (None, None, None)
    judge.add(arm="candidate", value=110, at=0)
    assert judge.effect == (None, None, None)
    judge.add(arm="baseline", value=100, at=SLOT_S)
    estimate, low, high = judge.effect
    assert low is not None
    assert estimate is not None
    assert high is not None
    assert low < estimate < high
    assert low < 0.1 < high


def test_old_ledger_is_ignored() -> None:
    judge = Judge(noise=TYPICAL_NOISE, ledger=[(0.0, 100.0)])
    judge.add(arm="candidate", value=50, at=7201.0)
    assert judge.next_arm == "baseline"
    assert not judge.same_launch


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_impossible_value_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="a measured value is"):
        Judge().add(arm="candidate", value=value, at=0)


def test_wrong_arm_is_refused() -> None:
    with pytest.raises(UsageError, match="it is the candidate's turn"):
        Judge().add(arm="baseline", value=1, at=0)


def test_time_must_be_a_number() -> None:
    with pytest.raises(UsageError, match="has the time nan"):
        Judge().add(arm="candidate", value=1, at=math.nan)


def test_nothing_is_added_to_a_verdict() -> None:
    judge = Judge(noise=TYPICAL_NOISE)
    play(judge, steady(150), steady(100))
    assert judge.next_arm is None
    with pytest.raises(UsageError, match="has its verdict"):
        judge.add(arm="candidate", value=1, at=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "slow"}, "no verdict profile 'slow'"),
        ({"direction": "up"}, "direction is 'up'"),
        ({"worthwhile": 0.0}, "worthwhile is 0.0"),
        ({"worthwhile": math.nan}, "worthwhile is nan"),
        ({"noise": [math.nan]}, "A/A difference is not a finite number"),
        ({"ledger": [(0.0, -1.0)]}, "a measured value is -1.0"),
    ],
)
def test_senseless_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Judge(**arguments)  # type: ignore[arg-type]


def test_judge_does_without_scipy_stats() -> None:
    code = "import sys, knowngood.reason.judge; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


values = st.floats(min_value=0.01, max_value=1e6)
near = st.floats(min_value=80.0, max_value=130.0)
series = st.lists(near | values, min_size=48, max_size=48)
noises = st.lists(st.floats(min_value=-0.3, max_value=0.3), max_size=12)
profiles = st.sampled_from(["quick", "standard", "thorough", "explore"])


@settings(deadline=None, max_examples=25)
@given(launches=series, noise=noises, profile=profiles)
def test_estimate_lies_inside_its_interval(launches: list[float], noise: list[float], profile: str) -> None:
    verdict = play(Judge(profile=profile, noise=noise), launches.__getitem__, launches.__getitem__)
    assert verdict.estimate is not None
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low <= verdict.estimate <= verdict.high
    assert verdict.decision in get_args(type(verdict).__annotations__["decision"])
    assert (verdict.decision == "keep") == (verdict.reason == "better")


@settings(deadline=None, max_examples=25)
@given(launches=series, noise=noises, ledger=st.lists(near, min_size=1, max_size=6))
def test_ledger_never_helps_a_keep(launches: list[float], noise: list[float], ledger: list[float]) -> None:
    past = [(-300.0 * (age + 1), value) for age, value in enumerate(ledger)]
    informed = play(Judge(noise=noise, ledger=past), launches.__getitem__, launches.__getitem__)
    alone = play(Judge(noise=noise), launches.__getitem__, launches.__getitem__)
    assert informed.decision != "keep" or alone.decision == "keep"
    assert informed.launches <= alone.launches


@settings(deadline=None, max_examples=15)
@given(launches=series, factor=st.floats(min_value=0.01, max_value=100))
def test_unit_of_the_metric_does_not_matter(launches: list[float], factor: float) -> None:
    one = play(Judge(noise=TYPICAL_NOISE), launches.__getitem__, launches.__getitem__)
    other = play(Judge(noise=TYPICAL_NOISE), lambda i: factor * launches[i], lambda i: factor * launches[i])
    assert (one.decision, one.launches) == (other.decision, other.launches)
    assert one.estimate == pytest.approx(other.estimate, rel=1e-4, abs=1e-6)
