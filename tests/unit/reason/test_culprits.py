"""The search for what makes a set fail, on every small structure of a failure."""

from collections.abc import Callable, Collection
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.errors import UsageError
from knowngood.model.isolation import Outcome, Subset
from knowngood.reason.isolate import CulpritSearch, Found, expected_launches, launches_needed

Server = Callable[[Subset], Outcome]


def run(server: Server, count: int, suspects: Collection[int] = ()) -> tuple[Found, list[Subset]]:
    asked: list[Subset] = []
    search = CulpritSearch(count, suspects=suspects)
    while (subset := search.next) is not None:
        assert subset not in asked, "launched twice"
        asked.append(subset)
        search.add(server(subset))
    assert search.found is not None
    return search.found, asked


def guilty(*items: int) -> Server:
    return lambda subset: "failed" if subset & set(items) else "passed"


def together(*items: int) -> Server:
    return lambda subset: "failed" if subset >= set(items) else "passed"


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_one_culprit_is_found_wherever_it_is(count: int) -> None:
    for item in range(count):
        found, _ = run(guilty(item), count)
        assert found.survivors == tuple(one for one in range(count) if one != item)
        assert [(blame.items, blame.outcome) for blame in found.blames] == [((item,), "failed")]


@pytest.mark.parametrize("count", [2, 4, 7])
def test_two_culprits_are_both_found(count: int) -> None:
    for pair in combinations(range(count), 2):
        found, _ = run(guilty(*pair), count)
        assert sorted(blame.items for blame in found.blames) == [(item,) for item in pair]


@pytest.mark.parametrize("count", [2, 4, 7])
def test_two_that_fail_only_together_cost_one_of_them_and_both_are_named(count: int) -> None:
    for pair in combinations(range(count), 2):
        found, _ = run(together(*pair), count)
        assert len(found.survivors) == count - 1
        (blame,) = found.blames
        assert sorted(blame.items) == list(pair)
        assert blame.items[0] not in found.survivors


def test_three_that_fail_only_together_are_named() -> None:
    found, _ = run(together(1, 4, 6), 8)
    assert sorted(found.blames[0].items) == [1, 4, 6]


def needy(culprit: int, item: int, need: int, unlike: Outcome) -> Server:
    def server(subset: Subset) -> Outcome:
        if culprit in subset:
            return "failed"
        return unlike if item in subset and need not in subset else "passed"

    return server


def mutual(culprit: int, pair: set[int], unlike: Outcome) -> Server:
    def server(subset: Subset) -> Outcome:
        if culprit in subset:
            return "failed"
        return unlike if len(subset & pair) == 1 else "passed"

    return server


@pytest.mark.parametrize("unlike", ["unresolved", "failed"])
def test_a_prerequisite_is_not_blamed(unlike: Outcome) -> None:
    for culprit, item, need in permutations(range(5), 3):
        found, _ = run(needy(culprit, item, need, unlike), 5)
        assert len(found.survivors) == 4
        assert [blame.items for blame in found.blames] == [(culprit,)]


@pytest.mark.parametrize("unlike", ["unresolved", "failed"])
def test_two_that_only_work_together_are_not_blamed(unlike: Outcome) -> None:
    for culprit, one, other in permutations(range(5), 3):
        found, _ = run(mutual(culprit, {one, other}, unlike), 5)
        assert [blame.items for blame in found.blames] == [(culprit,)]
        assert len(found.survivors) == 4


def test_a_chain_of_prerequisites_survives() -> None:
    def server(subset: Subset) -> Outcome:
        if 5 in subset:
            return "failed"
        return "unresolved" if any(item in subset and item + 1 not in subset for item in range(4)) else "passed"

    found, _ = run(server, 6)
    assert found.survivors == (0, 1, 2, 3, 4)


def test_another_failure_is_left_out_but_not_taken_for_the_one_that_is_sought() -> None:
    def server(subset: Subset) -> Outcome:
        return "failed" if 0 in subset else "unresolved" if 3 in subset else "passed"

    found, _ = run(server, 5)
    assert found.survivors == (1, 2, 4)
    assert {blame.items: blame.outcome for blame in found.blames} == {(0,): "failed", (3,): "unresolved"}


def test_a_named_suspect_is_confirmed_in_two_launches() -> None:
    for count in (6, 16):
        _, asked = run(guilty(2), count, suspects={2})
        assert asked == [frozenset(range(count)) - {2}, frozenset({2})]


def test_two_named_suspects_that_fail_together_take_four_launches() -> None:
    found, asked = run(together(1, 4), 6, suspects={1, 4})
    assert sorted(found.blames[0].items) == [1, 4]
    assert len(asked) == 4


def test_a_wrong_suspicion_costs_little() -> None:
    for item in range(15):
        found, asked = run(guilty(item), 16, suspects={15})
        assert found.blames[0].items == (item,)
        assert len(asked) <= launches_needed(16, culprits=(item,)) + 2


@given(
    st.integers(2, 9),
    st.lists(st.sets(st.integers(0, 8), min_size=1, max_size=3), min_size=1, max_size=3),
    st.sets(st.integers(0, 8)),
)
def test_what_survives_has_passed_and_each_blame_fails_and_is_smallest(
    count: int, wholes: list[set[int]], suspects: set[int]
) -> None:
    """Any failure that more items cannot cure."""
    reasons = [whole & set(range(count)) or {0} for whole in wholes]

    def server(subset: Subset) -> Outcome:
        return "failed" if any(reason <= subset for reason in reasons) else "passed"

    found, asked = run(server, count, suspects=suspects)
    survivors = frozenset(found.survivors)
    assert server(survivors) == "passed"
    assert not survivors or survivors in asked
    for blame in found.blames:
        assert server(frozenset(blame.items)) == "failed"
        for item in blame.items:
            assert server(frozenset(blame.items) - {item}) == "passed"
    assert survivors | {blame.items[0] for blame in found.blames} == set(range(count))


def test_cut_off_anywhere_it_goes_on_with_what_it_knows() -> None:
    server = together(2, 9)
    whole, asked = run(server, 12)
    for made in range(len(asked)):
        search = CulpritSearch(12, known={subset: server(subset) for subset in asked[:made]})
        rest: list[Subset] = []
        while (subset := search.next) is not None:
            rest.append(subset)
            search.add(server(subset))
        assert rest == asked[made:]
        assert search.found == whole


def test_a_set_that_runs_after_all_is_left_whole() -> None:
    search = CulpritSearch(3, known={frozenset({0, 1, 2}): "passed"})
    assert search.next is None
    assert search.found == Found(survivors=(0, 1, 2), blames=())


def test_the_price_is_what_it_costs() -> None:
    mean, most = expected_launches(16)
    assert mean == sum(launches_needed(16, culprits=(item,)) for item in range(16)) / 16
    assert mean <= 6
    assert most == max(launches_needed(16, culprits=pair) for pair in combinations(range(16), 2))
    assert expected_launches(6, {1})[0] == 2


def test_misuse_is_refused() -> None:
    with pytest.raises(UsageError, match="without members"):
        CulpritSearch(0)
    search = CulpritSearch(1)
    assert search.next is None
    with pytest.raises(UsageError, match="over"):
        search.add("passed")
