import math
from collections.abc import Callable

import numpy as np
import pytest

from knowngood.errors import UsageError
from knowngood.reason import screen as screening
from knowngood.reason.screen import Screen, design, hadamard, launches_for


@pytest.mark.parametrize("least", [1, 2, 3, 4, 7, 8, 9, 12, 13, 17, 20, 21, 25, 33, 37, 41, 45, 60])
def test_arrays_are_orthogonal(least: int) -> None:
    found = hadamard(least)
    order = len(found)
    assert order >= least
    assert set(np.unique(found)) <= {-1, 1}
    assert (found.T @ found == order * np.eye(order)).all()
    assert (found[:, 0] == 1).all()


@pytest.mark.parametrize("count", [4, 5, 8, 11, 12, 16, 23])
def test_every_launch_tells_of_every_item(count: int) -> None:
    rows = design(count, launches_for(count), seed=1)
    assert rows.shape == (launches_for(count), count)
    assert set(np.unique(rows)) == {0.0, 1.0}
    centred = np.column_stack([np.ones(len(rows)), 2 * rows - 1])
    assert np.linalg.matrix_rank(centred) == count + 1


def test_folded_over_no_effect_is_mixed_up_with_a_pair() -> None:
    rows = 2 * design(6, 16, seed=3) - 1
    for item in range(6):
        for one in range(6):
            for other in range(one):
                assert rows[:, item] @ (rows[:, one] * rows[:, other]) == 0


@pytest.mark.parametrize("count", [2, 3])
def test_few_items_get_every_subset(count: int) -> None:
    rows = design(count, launches_for(count), seed=1)
    assert len(np.unique(rows, axis=0)) == 2**count
    assert len(rows) == 8


def test_the_budget_is_what_the_study_found_enough() -> None:
    assert [launches_for(count) for count in (4, 8, 16)] == [8, 12, 20]


def play(screen: Screen, value: Callable[[frozenset[int]], float | None]) -> None:
    while (subset := screen.next) is not None:
        screen.add(value(subset))


def test_the_same_seed_asks_the_same_and_goes_on_where_it_was_cut_off() -> None:
    whole = Screen(8, scale=0.02, seed=7)
    asked: list[frozenset[int]] = []
    while (subset := whole.next) is not None:
        asked.append(subset)
        whole.add(-0.08 if 3 in subset else 0.0)
    rest = Screen(8, scale=0.02, seed=7, known=[-0.08 if 3 in subset else 0.0 for subset in asked[:5]])
    assert rest.next == asked[5]
    for subset in asked[5:]:
        rest.add(-0.08 if 3 in subset else 0.0)
    assert rest.found == whole.found


def test_the_one_that_hurts_is_named_with_its_effect() -> None:
    screen = Screen(8, scale=0.01, seed=1)
    play(screen, lambda subset: 4.6 + 0.05 * (1 in subset) - 0.08 * (3 in subset))
    found = screen.found
    assert found is not None
    assert 1 in found.survivors
    assert 3 not in found.survivors
    hurts = next(effect for effect in found.effects if effect.item == 3)
    assert hurts.low < -0.08 < hurts.high < 0
    idle = next(effect for effect in found.effects if effect.item == 0)
    assert idle.low < 0 < idle.high


def test_a_pair_that_helps_only_together_survives() -> None:
    screen = Screen(8, scale=0.01, seed=1)
    play(screen, lambda subset: 0.08 * ({2, 6} <= subset) - 0.06 * (0 in subset))
    assert screen.found is not None
    assert {2, 6} <= set(screen.found.survivors)
    assert 0 not in screen.found.survivors


def test_large_effects_are_told_apart() -> None:
    screen = Screen(8, scale=0.02, seed=1)
    play(screen, lambda subset: math.log(2) * (1 in subset) - math.log(3) * (3 in subset) + 0.05 * (5 in subset))
    assert screen.found is not None
    assert 1 in screen.found.survivors
    assert 3 not in screen.found.survivors


def test_what_an_item_needs_survives_with_it_though_it_adds_nothing() -> None:
    screen = Screen(8, scale=0.01, seed=2)
    play(
        screen, lambda subset: None if 2 in subset and 5 not in subset else 0.10 * (2 in subset) - 0.06 * (0 in subset)
    )
    assert screen.found is not None
    assert {2, 5} <= set(screen.found.survivors)
    assert 0 not in screen.found.survivors


def error_under_drift() -> float:
    """Mean error of an effect's estimate on a machine that gets slower by 0.5 % a launch."""
    errors: list[float] = []
    for seed in range(30):
        screen = Screen(8, scale=0.01, seed=seed)
        made = 0
        while (subset := screen.next) is not None:
            screen.add(-0.005 * made + 0.06 * (1 in subset))
            made += 1
        assert screen.found is not None
        errors.append(abs(screen.found.effects[1].estimate - 0.06))
    return sum(errors) / len(errors)


def test_a_machine_that_gets_slower_is_not_taken_for_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    with_drift = error_under_drift()
    monkeypatch.setattr(screening, "DRIFT_SD", 1e-6)
    assert with_drift < 0.9 * error_under_drift()


def test_where_little_runs_nothing_is_said() -> None:
    screen = Screen(8, scale=0.01, seed=1)
    play(screen, lambda subset: 0.0 if len(subset) == 8 else None)
    with pytest.raises(UsageError, match="do not run"):
        _ = screen.found


def test_misuse_is_refused() -> None:
    with pytest.raises(UsageError, match="one item"):
        Screen(1, scale=0.01, seed=1)
    with pytest.raises(UsageError, match="too few"):
        Screen(8, scale=0.01, seed=1, launches=8)
    screen = Screen(2, scale=0.01, seed=1)
    assert screen.found is None
    play(screen, lambda _: 0.0)
    with pytest.raises(UsageError, match="over"):
        screen.add(0.0)
