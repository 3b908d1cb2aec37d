"""Runs made elsewhere: the rule in its own order, and what is said where the design is another."""

import math
import random
from collections.abc import Sequence

import pytest

from knowngood.errors import UsageError
from knowngood.model.measured import Measured, Offer, Question, Ruling, Side
from knowngood.reason.elsewhere import rule_on
from knowngood.reason.judge import Judge

SLOT_S = 180.0
ARMS: dict[str, Side] = {"B": "baseline", "C": "candidate", "N": "noise"}
CALM = (0.01, -0.012, 0.008, -0.004, 0.011, -0.007, 0.002, -0.009, 0.006, -0.003)


def offer(order: str, *, gain: float = 0.0, runs: int = 1, drift: float = 0.0, spread: Sequence[float] = CALM) -> Offer:
    """Launches in an order such as ``CBBC``, a slot apart; a blank is a day's pause."""
    found: list[Measured] = []
    at, number = 0.0, 0
    for letter in order:
        if letter == " ":
            at += 86_400
            continue
        level = 100 * (1 + gain * (letter == "C")) * math.exp(spread[number % len(spread)] + drift * number)
        found += [
            Measured(
                arm=ARMS[letter], launch=str(number), run=str(run), metric="tok_s", value=level + run / 100, at=at + run
            )
            for run in range(runs)
        ]
        at, number = at + SLOT_S, number + 1
    return Offer(name="runs.csv", runs=tuple(found))


def ask(offered: Offer, *, profile: str = "standard", history: Offer | None = None) -> Ruling:
    question = Question(metric="tok_s", direction="higher", worthwhile=0.02, profile=profile)
    return rule_on(offered, question, history=history)


def uses(ruling: Ruling) -> list[str]:
    return [start.use for start in ruling.launches]


def test_it_is_the_judges_own_verdict() -> None:
    ruling = ask(offer("NNNNNNNNCBBCCBBC", gain=0.3))
    noise = [CALM[at] - CALM[at + 1] for at in (0, 2, 4, 6)]
    judge = Judge(noise=noise, ledger=[(at * SLOT_S, 100 * math.exp(CALM[at])) for at in range(8)])
    launch = 8
    while (arm := judge.next_arm) is not None:
        value = (130 if arm == "candidate" else 100) * math.exp(CALM[launch % 10])
        judge.add(arm=arm, value=value, at=launch * SLOT_S, verified=True)
        launch += 1
    assert judge.verdict is not None
    assert ruling.verdict is not None
    assert ruling.verdict.decision == judge.verdict.decision == "keep"
    assert ruling.verdict.estimate == pytest.approx(judge.verdict.estimate, rel=1e-9)
    assert ruling.verdict.low == pytest.approx(judge.verdict.low, rel=1e-9)
    assert uses(ruling) == ["noise"] * 8 + ["pair 1"] * 2 + ["pair 2"] * 2 + ["after"] * 4
    assert ruling.needed == ()
    assert ruling.problems == ("the rule had its verdict after 4 launches: 4 later launches do not count",)


def test_runs_of_one_launch_are_one_value() -> None:
    ruling = ask(offer("CB", gain=0.1, runs=10))
    assert ruling.verdict is None
    assert ruling.pairs == 1
    assert "10 runs of the candidate count as 1 value, the median of each launch" in ruling.problems[0]
    assert ruling.launches[0].value == pytest.approx(110 * math.exp(CALM[0]) + 0.045)
    assert "the baseline's next" in ruling.needed[0]


def test_blocks_are_never_a_keep() -> None:
    ruling = ask(offer("BBBBBBBBBBCCCCCCCCCC", gain=0.3))
    assert ruling.verdict is None or ruling.verdict.decision != "keep"
    assert "the arms stand in blocks (10 baseline and 10 candidate launches)" in ruling.problems[0]
    assert uses(ruling)[:10] == ["noise"] * 8 + ["left out", "pair 1"]


def test_a_machine_that_changes_between_the_blocks_is_no_gain() -> None:
    for seed in range(50):
        noise = random.Random(seed)
        spread = [noise.gauss(0, 0.01) + (0.05 if at >= 12 else 0) for at in range(24)]
        verdict = ask(offer("B" * 12 + "C" * 12, spread=spread)).verdict
        assert verdict is None or verdict.decision != "keep"


def test_an_order_without_balance_gives_the_pairs_that_have_it() -> None:
    ruling = ask(offer("BCBCBCBC", gain=0.005))
    compared = [(start.title, start.use) for start in ruling.launches if start.use.startswith("pair")]
    assert compared[:4] == [
        ("baseline 0", "pair 1"),
        ("candidate 1", "pair 1"),
        ("candidate 3", "pair 2"),
        ("baseline 4", "pair 2"),
    ]
    assert "not in the order C B B C C B B C …, and so left out: baseline 2" in " ".join(ruling.problems)


def test_a_steady_drift_does_not_look_like_a_gain_in_a_fixed_order() -> None:
    """Each candidate launch follows its baseline on a machine that gets 3 % faster from launch to launch."""
    verdict = ask(offer("BC" * 24, drift=0.03, spread=[0.0])).verdict
    assert verdict is None or verdict.decision != "keep"


def test_the_mirrored_order_loses_nothing() -> None:
    assert (
        uses(ask(offer("BCCBBCCB", gain=0.004, spread=[0.0]), profile="thorough"))[:4]
        == ["pair 1"] * 2 + ["pair 2"] * 2
    )


def test_baseline_launches_side_by_side_are_history() -> None:
    ruling = ask(offer("BBBBCB", gain=0.1))
    assert uses(ruling) == ["noise"] * 4 + ["pair 1"] * 2
    assert ruling.noise == pytest.approx((CALM[0] - CALM[1], CALM[2] - CALM[3]))
    assert "only 2 A/A pairs: a spread of 5% is assumed for the missing ones" in ruling.problems


def test_a_history_of_its_own_tells_the_noise_and_no_level() -> None:
    old = Offer(name="old.csv", runs=offer("BBNN", gain=0.0).runs)
    ruling = ask(offer("CBB", gain=-0.001), history=old)
    assert len(ruling.noise) == 2
    assert [start.use for start in ruling.launches] == ["pair 1", "pair 1", "alone"]
    with pytest.raises(UsageError, match=r"old\.csv has runs of a candidate"):
        ask(offer("CB"), history=Offer(name="old.csv", runs=offer("BC").runs))


def test_a_hopeless_candidate_needs_no_baseline_beside_it() -> None:
    ruling = ask(offer("NNNNNNNNC", gain=-0.15))
    assert ruling.verdict is not None
    assert (ruling.verdict.decision, ruling.verdict.reason, ruling.verdict.launches) == ("revert", "regression", 1)
    assert uses(ruling)[-1] == "alone"


def test_half_a_pair_that_decides_nothing_waits_for_the_other_half() -> None:
    ruling = ask(offer("NNNNNNNNC", gain=0.15))
    assert ruling.verdict is None
    assert uses(ruling)[-1] == "alone"
    assert ruling.pairs == 0
    assert "0 baseline and 1 candidate launch: both arms are needed" in ruling.problems


def test_launches_of_two_days_are_no_pair() -> None:
    ruling = ask(offer("BBBB CCCC", gain=0.3))
    assert ruling.pairs == 0
    assert any("more than 2 h apart" in problem for problem in ruling.problems)
    assert ruling.needed[0].startswith("launches in turns, C B B C")


@pytest.mark.parametrize(("lack", "says"), [("launch", "not independent"), ("at", "nobody can tell whether")])
def test_what_is_not_told_is_not_assumed(lack: str, says: str) -> None:
    runs = offer("CBBCCBBC", gain=0.5).runs
    bare = tuple(
        Measured(
            arm=run.arm,
            launch="" if lack == "launch" else run.launch,
            run=run.run,
            metric=run.metric,
            value=run.value,
            at=None if lack == "at" else run.at,
        )
        for run in runs
    )
    ruling = ask(Offer(name="x", runs=bare))
    assert ruling.verdict is None
    assert says in ruling.problems[0]
    assert ruling.needed[0].startswith("for each run the launch that it belongs to and its time")


def test_launches_at_one_time_have_no_order() -> None:
    runs = tuple(
        Measured(arm=run.arm, launch=run.launch, run="0", metric="tok_s", value=run.value, at=7.0)
        for run in offer("CBBCCBBC", gain=0.5).runs
    )
    ruling = ask(Offer(name="x", runs=runs))
    assert ruling.verdict is None
    assert "two launches begin at the same time" in ruling.problems[0]


def test_a_run_that_looks_wrong_is_named() -> None:
    spread = [*CALM[:8], 0.0, -0.3]
    ruling = ask(offer("NNNNNNNNCB", spread=spread))
    assert any(problem.startswith("baseline 9 is far below its like") for problem in ruling.problems)


def test_a_metric_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match="no metric 'tok_s'"):
        ask(Offer(name="x", runs=(Measured(arm="baseline", launch="1", run="", metric="ttft", value=1.0, at=0.0),)))


def test_worthless_changes_are_not_kept_whatever_the_order() -> None:
    """No order of launches, and no number of them, makes more than the rule's share of worthless changes a keep."""
    kept = 0
    for seed in range(150):
        noise = random.Random(seed)
        letters = "".join(noise.choice("BC") for _ in range(40))
        spread = [noise.gauss(0, 0.02) for _ in range(48)]
        verdict = ask(offer("N" * 8 + letters, spread=spread)).verdict
        kept += verdict is not None and verdict.decision == "keep"
    assert kept <= 3
