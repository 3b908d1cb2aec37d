"""Crediting against a clock that ticks through every moment."""

import random

import numpy as np
import pytest

from knowngood.model.profile import Lane, Timeline
from knowngood.reason.steptime.attribute import attribute, self_times, uncovered, union
from knowngood.reason.steptime.steps import period_of

CATEGORIES = ["gemm", "comm.allreduce", "norm"]


@pytest.mark.parametrize("seed", range(20))
def test_devices_against_a_clock(seed: int) -> None:
    rng = random.Random(seed)
    lane = Lane(rank=0, name="device")
    events = [(rng.randrange(200), rng.randrange(1, 30), rng.randrange(3)) for _ in range(rng.randrange(1, 25))]
    for start, length, name in events:
        lane.add(start, length, name)
    found = attribute([Timeline(source="x", names=CATEGORIES, categories=CATEGORIES, lanes=[lane])])
    assert found is not None
    credit = dict.fromkeys(CATEGORIES, 0.0)
    begin, end = min(start for start, _, _ in events), max(start + length for start, length, _ in events)
    idle = 0
    for tick in range(begin, end):
        running = [one for one in events if one[0] <= tick < one[0] + one[1]]
        if not running:
            idle += 1
            continue
        # Whoever began first has it, and of those the longest; once covered to its end, the next goes on.
        first = min(running, key=lambda one: (one[0], -one[1]))
        credit[CATEGORIES[first[2]]] += 1
    assert found.idle_ms * 1e3 == pytest.approx(idle)
    assert sum(part.ms for part in found.parts) * 1e3 == pytest.approx(sum(credit.values()))
    assert found.overlap_ms * 1e3 == pytest.approx(sum(length for _, length, _ in events) - sum(credit.values()))


@pytest.mark.parametrize("seed", range(20))
def test_self_times_add_up_to_what_is_covered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.integers(0, 100, 30).astype(float))
    ends = starts + rng.integers(1, 40, 30).astype(float)
    order = np.lexsort((-ends, starts))
    starts, ends = starts[order], ends[order]
    tops = union(starts, ends)
    assert np.all(self_times(starts, ends) >= 0)
    assert float(np.sum(self_times(starts, ends))) <= float(np.sum(tops[1] - tops[0])) + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_uncovered_against_a_clock(seed: int) -> None:
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(100), 2 * rng.randrange(8)))
    starts, ends = np.array(cuts[::2], dtype=float), np.array(cuts[1::2], dtype=float)
    low, high = sorted((rng.randrange(100), rng.randrange(100)))
    free = sum(
        not any(start <= tick < end for start, end in zip(starts, ends, strict=True)) for tick in range(low, high)
    )
    assert uncovered(starts, ends, np.array([float(low)]), np.array([float(high)])).tolist() == [free]


def test_a_collective_of_another_thread_is_credited_while_this_one_asks_or_does_nothing() -> None:
    names = ["gemm", "comm.call", "comm.allreduce"]
    main, worker = Lane(rank=0, name="main", nested=True), Lane(rank=0, name="worker", nested=True)
    for start, length, name in ((0, 100, 0), (100, 50, 1), (180, 20, 0)):
        main.add(start, length, name)
    for start, length in ((90, 40), (120, 40)):
        worker.add(start, length, 2)
    found = attribute([Timeline(source="x", names=names, categories=names, lanes=[main, worker])])
    assert found is not None
    assert {part.category: part.ms * 1e3 for part in found.parts} == pytest.approx(
        {"gemm": 120, "comm.allreduce": 60, "comm.call": 0}
    )
    assert found.idle_ms * 1e3 == pytest.approx(20)


def test_nothing_ran() -> None:
    assert attribute([Timeline(source="x")]) is None


def test_period_of_launches() -> None:
    assert period_of([5, 5, 5]) == 1
    assert period_of([5, 9, 2] * 4) == 3
    assert period_of([5, 9] * 10 + [7]) == 2
    assert period_of([1, 2, 3, 4, 5, 6]) == 0
    assert period_of([]) == 0
