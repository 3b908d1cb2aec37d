"""The rule of a race: whose turn it is, who drops out, who wins."""

import math
import random
from collections.abc import Mapping

import pytest

from knowngood.errors import UsageError
from knowngood.reason.race import BASELINE, BLOCKS, REFERENCE_EVERY, Race

QUIET = (0.004, -0.003, 0.005, -0.004, 0.003, -0.005)
NOISY = (0.05, -0.04, 0.06, -0.05, 0.04, -0.06)
LEDGER = [(-180.0 * at, 100.0) for at in range(1, 6)]


def run(race: Race, effects: Mapping[str, float], *, noise: float = 0.0, seed: int = 1) -> list[str]:
    chance = random.Random(seed)
    launched: list[str] = []
    while (name := race.next) is not None:
        value = 100 * (1 + effects.get(name, 0.0)) * math.exp(chance.gauss(0, noise))
        race.add(name, value, at=180.0 * len(launched))
        launched.append(name)
    return launched


def test_everybody_is_launched_once_and_the_clear_winner_wins() -> None:
    race = Race(["a", "b", "c"], at=0.0, noise=QUIET, ledger=LEDGER)
    assert run(race, {"a": -0.05, "b": 0.20, "c": 0.02}) == ["a", "b", "c"]
    assert race.winner == "b"
    assert [(one.name, one.state, one.block) for one in race.standings()] == [
        ("b", "winner", 0),
        ("c", "behind", 1),
        ("a", "worse", 1),
    ]


def test_equals_go_on_until_the_last_block_and_every_other_block_goes_backwards() -> None:
    race = Race(["a", "b"], at=0.0, noise=NOISY, ledger=LEDGER)
    launched = [name for name in run(race, {"a": 0.05, "b": 0.05}) if name]
    assert launched == ["a", "b", "b", "a"] * (BLOCKS // 2)
    assert race.winner in ("a", "b")
    assert sorted(one.state for one in race.standings()) == ["level", "winner"]


def test_equals_on_a_quiet_machine_are_told_to_be_level_and_cost_little() -> None:
    race = Race(["a", "b", "c"], at=0.0, noise=QUIET, ledger=LEDGER)
    assert len(run(race, {"a": 0.05, "b": 0.05, "c": 0.05})) <= 6
    assert sorted(one.state for one in race.standings()) == ["level", "level", "winner"]


def test_nobody_wins_who_is_worse_than_the_baseline() -> None:
    race = Race(["a", "b"], at=0.0, noise=QUIET, ledger=LEDGER)
    run(race, {"a": -0.05, "b": -0.06})
    assert race.winner == ""
    assert {one.state for one in race.standings()} == {"worse"}


def test_less_can_be_better() -> None:
    race = Race(["a", "b"], at=0.0, direction="lower", noise=QUIET, ledger=LEDGER)
    run(race, {"a": -0.10, "b": 0.10})
    assert race.winner == "a"
    assert race.standings()[0].estimate == pytest.approx(0.10, abs=0.02)


def test_the_baseline_is_launched_first_where_no_recent_launch_of_it_is_known() -> None:
    old = [(then - 86_400.0, value) for then, value in LEDGER]
    assert Race(["a", "b"], at=0.0, noise=QUIET, ledger=old).next == BASELINE
    assert Race(["a", "b"], at=0.0, noise=QUIET, ledger=LEDGER).next == "a"


def test_the_baseline_is_launched_now_and_then() -> None:
    names = [f"c{at}" for at in range(60)]
    launched = run(Race(names, at=0.0, noise=QUIET, ledger=LEDGER), {"c0": 0.5})
    places = [at for at, name in enumerate(launched) if name == BASELINE]
    assert places[0] == REFERENCE_EVERY
    assert places[1] == 2 * REFERENCE_EVERY + 1


def test_who_fails_drops_out_wherever_the_race_is() -> None:
    race = Race(["a", "b", "c"], at=0.0, noise=QUIET, ledger=LEDGER)
    race.drop("a")
    assert race.next == "b"
    race.drop("b")
    race.add("c", 130.0, at=180.0)
    assert race.winner == "c"
    assert [one.state for one in race.standings()] == ["winner", "failed", "failed"]


def test_whom_a_candidate_had_beaten_comes_back_when_it_fails() -> None:
    race = Race(["a", "b", "c", "d"], at=0.0, noise=NOISY, ledger=LEDGER)
    for at, value in enumerate((130.0, 129.0, 115.0, 80.0)):
        race.add("abcd"[at], value, at=180.0 * at)
    assert (race.block, race.racing) == (1, ("a", "b"))
    race.drop("a")
    race.drop("b")
    assert race.racing == ("c",), "d was worse than the baseline"
    assert race.winner == "c"


def test_a_race_in_which_all_fail_is_over() -> None:
    race = Race(["a", "b"], at=0.0, noise=QUIET, ledger=LEDGER)
    race.drop("a")
    race.drop("b")
    assert race.is_over
    assert race.winner == ""
    assert [one.estimate for one in race.standings()] == [None, None]


def test_a_single_candidate_is_launched_once() -> None:
    race = Race(["a"], at=0.0, noise=QUIET, ledger=LEDGER)
    assert run(race, {"a": 0.1}) == ["a"]
    assert race.winner == "a"


def test_an_open_race_waits_for_further_candidates() -> None:
    race = Race(["a"], at=0.0, noise=QUIET, ledger=LEDGER, is_open=True)
    race.add("a", 100.0, at=0.0)
    assert (race.next, race.is_over, race.block) == (None, False, 0)
    assert not Race([], at=0.0, is_open=True).is_over
    assert Race([], at=0.0).is_over


def test_a_race_built_anew_goes_on_where_it_was() -> None:
    effects = {"a": 0.01, "b": 0.02, "c": 0.03}
    whole = Race(list(effects), at=0.0, noise=QUIET, ledger=LEDGER)
    launched = run(whole, effects, noise=0.01)
    chance = random.Random(1)
    values = [100 * (1 + effects.get(name, 0.0)) * math.exp(chance.gauss(0, 0.01)) for name in launched]
    for cut in range(len(launched)):
        again = Race(list(effects), at=0.0, noise=QUIET, ledger=LEDGER)
        for at in range(cut):
            again.add(launched[at], values[at], at=180.0 * at)
        assert again.next == launched[cut]


def test_a_launch_far_below_its_like_is_measured_again() -> None:
    race = Race(["a", "b"], at=0.0, noise=QUIET, ledger=LEDGER)
    assert not race.needs_verification("a", [60.0])
    race.add("a", 100.0, at=0.0)
    assert race.needs_verification("a", [60.0])
    assert race.needs_verification("a", [60.0, 100.0])
    assert not race.needs_verification("a", [60.0, 100.0, 101.0])
    assert not race.needs_verification("a", [100.5])
    assert race.needs_verification(BASELINE, [60.0])


def test_a_drifting_machine_favours_nobody() -> None:
    won = 0
    for seed in range(40):
        chance = random.Random(seed)
        race = Race(["a", "b", "c", "d"], at=0.0, noise=QUIET, ledger=LEDGER)
        at = 0
        while (name := race.next) is not None:
            effect = 0.02 if name == "a" else 0.0
            race.add(name, 100 * math.exp(effect + 0.0005 * at + chance.gauss(0, 0.003)), at=180.0 * at)
            at += 1
        won += race.winner == "a"
    assert won >= 36


def test_a_value_that_is_none_is_refused() -> None:
    race = Race(["a", "b"], at=0.0)
    with pytest.raises(UsageError, match="measured value"):
        race.add("a", 0.0, at=0.0)
