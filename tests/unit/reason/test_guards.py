"""Guards: memory, accuracy, corrupted speculation, what fell to nothing."""

import math

import numpy as np
import pytest

from knowngood.errors import CheckFailed
from knowngood.model.evidence import AccuracyCheck
from knowngood.reason.accuracy import compare_items, items_needed, judge_accuracy, read_items
from knowngood.reason.guards import judge_loss, judge_memory, suspect_speculation

STEADY = (300.0, 300.3, 299.8, 300.1, 300.2, 299.9, 300.0, 300.1)


def memory(*mine: float, base: tuple[float, ...] = STEADY, margin: float = 0.02) -> str:
    # Given in units of 100 MB: below SLIGHT_MB nothing is judged.
    return judge_memory("server memory", [100 * one for one in mine], [100 * one for one in base], margin=margin).state


def test_growth_that_nobody_is_short_of_never_fails() -> None:
    assert judge_memory("server memory", [45.0], [30.0, 30.0], margin=0.02).state != "fail"
    assert judge_memory("server memory", [60.0], [30.0, 30.0], margin=0.02).state == "fail"


def test_one_launch_is_enough_for_memory() -> None:
    assert memory(330.0) == "fail"
    assert memory(300.5) == "pass"
    assert memory(250.0) == "pass"
    assert memory(306.1) == "undecided"


def test_noisy_memory_needs_a_clearer_growth() -> None:
    noisy = (300.0, 330.0, 290.0, 325.0, 310.0, 295.0, 335.0, 300.0)
    assert memory(325.0, base=noisy) == "undecided"
    assert memory(420.0, base=noisy) == "fail"


def test_a_single_launch_of_the_baseline_tells_no_noise() -> None:
    assert memory(308.0, base=(300.0,)) == "undecided"
    assert memory(330.0, base=(300.0,)) == "fail"
    assert memory(300.0, base=(300.0,)) == "undecided" or memory(300.0, base=(300.0,), margin=0.05) == "pass"


def test_memory_that_nobody_measured_is_not_judged() -> None:
    assert memory(base=(300.0,)) == "undecided"
    assert memory(0.0) == "undecided"
    assert "([guards] memory)" in judge_memory("x", [400.0], STEADY, margin=0.02).why


def test_launches_of_one_thing_rarely_break_the_memory_guard() -> None:
    rng = np.random.default_rng(5)
    broken = 0
    for _ in range(2000):
        drawn = 300 * np.exp(rng.normal(0, 0.004, 10))
        broken += memory(*drawn[:2], base=tuple(drawn[2:])) == "fail"
    assert broken == 0


def test_a_metric_that_fell_to_nothing_fails() -> None:
    found = judge_loss("w goodput_s", [math.inf], margin=0.05, history=())
    assert (found.state, found.why) == ("fail", "it fell to nothing on the candidate")


def check(items: int, lost: int, gained: int) -> AccuracyCheck:
    return AccuracyCheck(items=items, base_right=items // 2, right=items // 2 - lost + gained, lost=lost, gained=gained)


def accuracy(items: int, lost: int, gained: int, margin: float = 0.01) -> str:
    return judge_accuracy(check(items, lost, gained), margin=margin).state


def test_accuracy_passes_only_if_the_loss_is_surely_below_the_margin() -> None:
    assert accuracy(2500, 50, 50) == "pass"
    assert accuracy(500, 0, 0) == "pass"
    assert accuracy(2500, 110, 40) == "fail"
    assert accuracy(100, 2, 2) == "undecided"
    assert accuracy(20, 0, 0) == "undecided"
    assert accuracy(100, 12, 0) == "fail"


def test_the_figures_say_how_many_items_it_takes() -> None:
    found = judge_accuracy(check(100, 2, 2), margin=0.01)
    assert found.why == (
        "50 of 100 items right, 50 on the baseline: +0.0 points ± 3.6, a loss of 1 is allowed; "
        "with as many differences 3,028 items decide in 80 % of cases"
    )
    # Section 4 of the study: 4 % of items that differ, 1 point: 2,470.
    assert items_needed(0.04, 0.01) == pytest.approx(2470, abs=2)
    assert items_needed(0.01, 0.01) == pytest.approx(618, abs=1)


@pytest.mark.parametrize(
    ("loss", "state", "least", "most"),
    [(0.0, "pass", 0.77, 0.84), (0.01, "pass", 0.0, 0.07), (0.0, "fail", 0.0, 0.015)],
)
def test_accuracy_decides_as_often_as_it_says(loss: float, state: str, least: float, most: float) -> None:
    rng = np.random.default_rng(11)
    items, differing = 2470, 0.04
    shares = [(differing + loss) / 2, (differing - loss) / 2, 1 - differing]
    drawn = rng.multinomial(items, shares, size=2000)
    share = float(np.mean([accuracy(items, int(lost), int(gained)) == state for lost, gained, _ in drawn]))
    assert least <= share <= most


def test_items_are_read_from_lines_and_from_a_list() -> None:
    lines = 'loading…\n{"item": "a", "right": true}\n{"progress": 0.5}\n{"item": 7, "right": 0, "said": "x"}\n'
    assert read_items(lines) == {"a": True, "7": False}
    assert read_items('[{"item": "a", "right": 1}, {"item": "b", "right": false}]') == {"a": True, "b": False}
    assert read_items('{"item": "a", "right": true}') == {"a": True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no item"),
        ("42\n", "no item"),
        ('{"item": "a", "right": 0.7}', "neither right nor wrong"),
        ('{"item": "a", "right": true}\n{"item": "a", "right": true}\n', "twice"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        read_items(text)


def test_items_are_compared_one_by_one() -> None:
    base = {"a": True, "b": True, "c": False, "d": False}
    found = compare_items(base, {"a": True, "b": False, "c": True, "d": False})
    assert (found.items, found.base_right, found.right, found.lost, found.gained) == (4, 2, 2, 1, 1)
    with pytest.raises(CheckFailed, match="different items: d"):
        compare_items(base, {"a": True, "b": False, "c": True})


def test_speculation_that_collapsed_is_suspected() -> None:
    assert suspect_speculation([1.05, 1.1], [2.9, 3.1]) == (
        "possible corruption: the acceptance length fell from 3.00 to 1.08 tokens"
    )
    assert suspect_speculation([2.4], [2.9]) == ""
    assert suspect_speculation([3.5], [2.9]) == ""


def test_speculation_that_accepts_nothing_is_suspected() -> None:
    assert "accepts nothing" in suspect_speculation([1.01], [])
    assert suspect_speculation([1.4], []) == ""
    assert suspect_speculation([], [2.9]) == ""
    # A baseline whose drafts never helped says nothing about the candidate.
    assert suspect_speculation([1.0], [1.0]) == ""
