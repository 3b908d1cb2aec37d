"""When a pair of launches counts."""

import math

import pytest

from knowngood.config.lab import HostGuardTable, VerdictTable
from knowngood.model.evidence import Arm, LaunchRecord, RunRecord
from knowngood.reason.conditions import ALL, uneven, unlike, watched

LIMITS = {name: getattr(HostGuardTable(), name) for name in HostGuardTable.__struct_fields__}
LIMITS["foreign_cores"] = VerdictTable().foreign_cores
WATCHED = watched(LIMITS)


def launch(arm: Arm, *runs: dict[str, float], foreign: float = 0.0, notes: tuple[str, ...] = ()) -> LaunchRecord:
    records = tuple(
        RunRecord(workload="w", metrics=metrics, seconds=10.0, foreign_cores=foreign, notes=notes)
        for metrics in runs or ({},)
    )
    return LaunchRecord(arm=arm, index=0, started_at=0.0, ready_s=1.0, runs=records, value=1.0)


def differs(name: str, one: float, other: float) -> str:
    return uneven([launch("candidate", {name: one}), launch("baseline", {name: other})], WATCHED)


def test_every_condition_has_its_limit_in_the_lab_file() -> None:
    assert {one.name for one in ALL} == set(LIMITS)
    assert {one.name for one in WATCHED} == set(LIMITS)


@pytest.mark.parametrize(
    ("name", "one", "other", "words"),
    [
        ("swap_mb", 300.0, 0.0, "candidate 300 MB swapped, baseline 0 MB swapped"),
        ("memory_wait", 0.0, 0.3, "30% of the time waiting for memory"),
        ("cpu_throttles", 0.0, 9.0, "baseline CPU slowed by heat 9 times"),
        ("gpu_slowed", 1.0, 0.0, "candidate 1 accelerators slowed"),
        ("foreign_processes", 1.0, 0.0, "1 processes of others on accelerators"),
        ("server_age_s", 10.0, 500.0, "baseline measured 500 s after"),
        ("cpu_limit_mhz", 2400.0, 3500.0, "limited to 2400 MHz"),
        ("gpu_limit_w", 700.0, 400.0, "limited to 400 W"),
    ],
)
def test_what_differs_is_said(name: str, one: float, other: float, words: str) -> None:
    assert words in differs(name, one, other)
    assert words in differs(name, other, one) or words.startswith(("candidate", "baseline"))
    assert differs(name, one, one) == ""
    assert differs(name, other, other) == ""


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [("swap_mb", 900.0, 1100.0), ("cpu_throttles", 40.0, 55.0), ("server_age_s", 400.0, 560.0)],
)
def test_what_is_steady_need_not_be_exactly_equal(name: str, one: float, other: float) -> None:
    assert differs(name, one, other) == ""
    assert differs(name, one, 3 * other) != ""


def test_foreign_load_is_weighed_over_the_runs() -> None:
    pair = [launch("candidate", {}, {}, foreign=0.5), launch("baseline", foreign=0.1)]
    assert uneven(pair, WATCHED) == "candidate 0.50 cores of foreign load, baseline 0.10 cores of foreign load"
    assert uneven(pair[:1], WATCHED) == ""


def test_a_host_that_does_not_tell_voids_nothing() -> None:
    assert uneven([launch("candidate"), launch("baseline", {"swap_mb": 500.0})], WATCHED) == ""


def test_a_limit_of_infinity_does_not_watch() -> None:
    loose = watched({**LIMITS, "swap_mb": math.inf})
    assert uneven([launch("candidate", {"swap_mb": 9e9}), launch("baseline", {"swap_mb": 0.0})], loose) == ""


def test_a_change_set_that_sets_something_may_set_limits() -> None:
    pair = [launch("candidate", {"gpu_limit_w": 400.0}), launch("baseline", {"gpu_limit_w": 700.0})]
    assert uneven(pair, WATCHED)
    assert uneven(pair, watched(LIMITS, sets_something=True)) == ""


def test_who_was_there_is_named() -> None:
    there = launch("candidate", {"foreign_processes": 1.0}, notes=("process 42 (train.py) on an accelerator",))
    assert "process 42 (train.py)" in uneven([there, launch("baseline", {"foreign_processes": 0.0})], WATCHED)


def test_the_age_is_that_of_the_first_run() -> None:
    verified = launch("candidate", {"server_age_s": 5.0}, {"server_age_s": 400.0})
    assert uneven([verified, launch("baseline", {"server_age_s": 5.0})], WATCHED) == ""


def test_a_lone_launch_is_held_against_the_median_of_others() -> None:
    known = [launch("baseline", {"swap_mb": mb}) for mb in (0.0, 0.0, 800.0)]
    assert unlike(launch("candidate", {"swap_mb": 100.0}), known, WATCHED)
    assert not unlike(launch("candidate", {"swap_mb": 10.0}), known, WATCHED)
    assert not unlike(launch("candidate", {"swap_mb": 100.0}), [], WATCHED)


def test_a_quieter_host_is_not_held_against_a_launch() -> None:
    known = [launch("baseline", {"swap_mb": 100.0}) for _ in range(3)]
    assert not unlike(launch("candidate", {"swap_mb": 0.0}), known, WATCHED)
    old = [launch("baseline", {"server_age_s": 1000.0}) for _ in range(3)]
    assert unlike(launch("candidate", {"server_age_s": 1.0}), old, WATCHED)
