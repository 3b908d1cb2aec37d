"""What isolation promises, on random change sets. docs/how-to/isolate.md tells the same."""

from collections.abc import Callable

import numpy as np
import pytest

from knowngood.model.isolation import Outcome, Subset
from knowngood.reason.isolate import CulpritSearch, Found
from knowngood.reason.screen import Floats, Screen

pytestmark = pytest.mark.sim

CASES = 400
LAUNCH_SD = 0.0225
"""Spread of one launch, in ln units: 2 % between launches and 1 % between runs."""

Server = Callable[[Subset], Outcome]


def single(items: list[int], unlike: Outcome) -> Server:
    del unlike
    return lambda subset: "failed" if items[0] in subset else "passed"


def double(items: list[int], unlike: Outcome) -> Server:
    del unlike
    return lambda subset: "failed" if subset & set(items[:2]) else "passed"


def only_together(items: list[int], unlike: Outcome) -> Server:
    del unlike
    return lambda subset: "failed" if subset >= set(items[:2]) else "passed"


def prerequisite(items: list[int], unlike: Outcome) -> Server:
    culprit, needy, need = items[:3]
    return lambda subset: (
        "failed" if culprit in subset else unlike if needy in subset and need not in subset else "passed"
    )


def mutual_pair(items: list[int], unlike: Outcome) -> Server:
    culprit, one, other = items[:3]
    return lambda subset: "failed" if culprit in subset else unlike if len(subset & {one, other}) == 1 else "passed"


Scenario = Callable[[list[int], Outcome], Server]
BLAMED: dict[Scenario, int] = {single: 1, double: 2, only_together: 1, prerequisite: 1, mutual_pair: 1}


def search(server: Server, count: int) -> tuple[Found, int]:
    asking = CulpritSearch(count)
    launches = 0
    while (subset := asking.next) is not None:
        asking.add(server(subset))
        launches += 1
    assert asking.found is not None
    return asking.found, launches


@pytest.mark.parametrize("unlike", ["failed", "unresolved"])
@pytest.mark.parametrize("scenario", BLAMED)
@pytest.mark.parametrize("count", [4, 8, 16])
def test_culprits_of_a_failure_are_always_right(scenario: Scenario, count: int, unlike: Outcome) -> None:
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        items = [int(item) for item in rng.permutation(count)]
        server = scenario(items, unlike)
        found, _ = search(server, count)
        assert server(frozenset(found.survivors)) == "passed"
        assert len(found.survivors) == count - BLAMED[scenario]
        wanted = [set(items[:2])] if scenario is only_together else [{item} for item in items[: BLAMED[scenario]]]
        assert sorted(map(sorted, wanted)) == sorted(sorted(blame.items) for blame in found.blames)


@pytest.mark.parametrize(
    ("scenario", "most"),
    [(single, 6.0), (double, 12.5), (only_together, 11.5), (prerequisite, 8.5), (mutual_pair, 14.0)],
)
def test_launches_for_sixteen_members(scenario: Scenario, most: float) -> None:
    """With the proof: the rest passes, the culprit alone fails."""
    rng = np.random.default_rng(2)
    taken = [search(scenario([int(item) for item in rng.permutation(16)], "failed"), 16)[1] for _ in range(CASES)]
    assert np.mean(taken) <= most


class Effects:
    """A server whose ln throughput is a sum over items and pairs."""

    def __init__(self, count: int) -> None:
        self.items: Floats = np.zeros(count)
        self.pairs: Floats = np.zeros((count, count))
        self.needs: tuple[int, int] | None = None

    def value(self, subset: Subset) -> float | None:
        chosen = np.array([item in subset for item in range(len(self.items))], dtype=float)
        if self.needs is not None and chosen[self.needs[0]] and not chosen[self.needs[1]]:
            return None
        return float(chosen @ self.items + chosen @ self.pairs @ chosen)


def one_bad(made: Effects, order: list[int]) -> Subset:
    made.items[order[0]] = -0.08
    return frozenset()


def bad_among_good(made: Effects, order: list[int]) -> Subset:
    made.items[order[0]] = -0.06
    made.items[order[1]] = made.items[order[2]] = 0.05
    return frozenset(order[1:3])


def matched_pair(made: Effects, order: list[int]) -> Subset:
    made.items[order[0]] = -0.06
    made.pairs[order[1], order[2]] = 0.08
    return frozenset(order[1:3])


def pair_that_hurts_alone(made: Effects, order: list[int]) -> Subset:
    made.items[order[0]] = -0.06
    made.items[order[1]] = -0.04
    made.pairs[order[1], order[2]] = 0.12
    return frozenset(order[1:3])


def pair_that_crashes_alone(made: Effects, order: list[int]) -> Subset:
    made.items[order[0]] = -0.06
    made.pairs[order[1], order[2]] = 0.08
    made.needs = (order[1], order[2])
    return frozenset(order[1:3])


@pytest.mark.parametrize(
    ("scenario", "least"),
    [
        (one_bad, 0.97),
        (bad_among_good, 0.97),
        (matched_pair, 0.97),
        (pair_that_hurts_alone, 0.97),
        (pair_that_crashes_alone, 0.97),
    ],
)
@pytest.mark.parametrize(("count", "launches"), [(8, 12), (16, 20)])
def test_what_helps_is_kept_and_what_hurts_is_not(
    scenario: Callable[[Effects, list[int]], Subset], count: int, launches: int, least: float
) -> None:
    rng = np.random.default_rng(3)
    right = 0
    for case in range(CASES):
        made = Effects(count)
        order = [int(item) for item in rng.permutation(count)]
        helps = scenario(made, order)
        screen = Screen(count, scale=LAUNCH_SD, seed=case)
        made_launches = 0
        while (subset := screen.next) is not None:
            true = made.value(subset)
            screen.add(None if true is None else true + LAUNCH_SD * float(rng.standard_normal()))
            made_launches += 1
        assert made_launches == launches
        found = screen.found
        assert found is not None
        right += helps <= set(found.survivors) and order[0] not in found.survivors
    assert right / CASES >= least
