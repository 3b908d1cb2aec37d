"""A knob space: its combinations, what each one changes, and what is never proposed."""

import sys
from collections.abc import Callable, Sequence

import pytest

from knowngood.errors import UsageError
from knowngood.model.change import ChangeSet, Env, Flag, Setting, describe
from knowngood.model.launch import LaunchSpec
from knowngood.model.race import Knob, Space, Values
from knowngood.reason.findings import change_key
from knowngood.reason.propose import Tried, propose, require_optuna
from knowngood.reason.space import (
    as_it_is,
    candidate,
    combinations,
    grid,
    is_at,
    is_dead,
    is_forbidden,
    member,
    stands_at,
)

THREADS = Knob(kind="flag", name="--threads", low=1, high=8, step=1)
SLOTS = Knob(kind="flag", name="--parallel", choices=(1, 2, 4))
MLOCK = Knob(kind="flag", name="--mlock", choices=(True, False))
SHARE = Knob(kind="flag", name="--share", low=0.5, high=0.9)
STANDING = {"--threads": "2", "--parallel": "1", "--mlock": None, "--share": "0.8"}


def space(*knobs: Knob, **more: object) -> Space:
    return Space(name="space", knobs=knobs, **more)  # type: ignore[arg-type]


def test_where_the_baseline_has_a_knob() -> None:
    spec = LaunchSpec(argv=("server", "-t", "2", "--mlock", "--parallel=4"), env={"OMP": "1"})
    aliases = {"--threads": "-t", "-t": "-t"}

    def standing(knob: Knob) -> str | None:
        return stands_at(knob, spec, aliases=aliases, settings={"vm.swappiness": "60"})

    assert standing(THREADS) == "2"
    assert standing(SLOTS) == "4"
    assert standing(MLOCK) == ""
    assert standing(SHARE) is None
    assert standing(Knob(kind="env", name="OMP", choices=("1", "2"))) == "1"
    assert standing(Knob(kind="setting", name="vm.swappiness", low=0, high=100, step=1)) == "60"


@pytest.mark.parametrize(
    ("value", "text", "same"),
    [
        (4, "4", True),
        (4.0, "4", True),
        (0.8, "0.80", True),
        (4, "8", False),
        (4, None, False),
        ("on", "on", True),
        ("on", "", False),
        (True, "", True),
        (True, None, False),
        (False, None, True),
        (False, "", False),
    ],
)
def test_whether_a_value_stands_already(value: str | float, text: str | None, *, same: bool) -> None:
    assert is_at(value, text) is same


def test_a_proposal_changes_what_differs_from_the_baseline_and_nothing_else() -> None:
    found = candidate(space(THREADS, SLOTS, MLOCK), {"--threads": 2, "--parallel": 4, "--mlock": True}, STANDING)
    assert found.changes.members == (Flag(flag="--parallel", value="4"), Flag(flag="--mlock"))
    assert found.name == "parallel=4, mlock"
    same = candidate(space(THREADS, SLOTS, MLOCK), {"--threads": 2, "--parallel": 1, "--mlock": False}, STANDING)
    assert same.changes == ChangeSet()


def test_each_kind_of_knob_becomes_its_change() -> None:
    assert member(MLOCK, value=False) == Flag(flag="--mlock", remove=True)
    assert member(SHARE, 0.85) == Flag(flag="--share", value="0.85")
    assert member(Knob(kind="env", name="A", choices=("x",)), "x") == Env(name="A", value="x")
    knob = Knob(kind="setting", name="clock", choices=(1, 2), read=("get",), write=("set", "{value}"))
    assert member(knob, 2) == Setting(name="clock", value="2", read=("get",), write=("set", "{value}"))


def test_grids_hold_their_ends() -> None:
    assert grid(THREADS) == tuple(range(1, 9))
    assert grid(Knob(kind="flag", name="-x", low=0.1, high=0.5, step=0.1)) == pytest.approx((0.1, 0.2, 0.3, 0.4, 0.5))
    assert grid(SHARE) is None
    assert combinations(space(THREADS, SHARE), STANDING) is None


def test_forbidden_combinations_are_left_out_the_baselines_values_included() -> None:
    ruled = space(THREADS, SLOTS, forbid=({"--threads": (7, 8), "--parallel": (4,)},))
    found = combinations(ruled, STANDING)
    assert found is not None
    assert len(found) == 8 * 3 - 2
    assert {"--threads": 8, "--parallel": 4} not in found
    # A knob that takes no part is where the baseline has it.
    hidden = msgspec_replace(SLOTS, when={"--threads": (1,)})
    held = space(THREADS, hidden, forbid=({"--threads": (8,), "--parallel": (1,)},))
    assert is_forbidden(held, {"--threads": 8}, STANDING)
    assert not is_forbidden(held, {"--threads": 8}, {**STANDING, "--parallel": "2"})


def msgspec_replace(knob: Knob, **fields: object) -> Knob:
    import msgspec

    return msgspec.structs.replace(knob, **fields)


def test_a_knob_with_a_condition_takes_part_only_where_it_holds() -> None:
    drafts = Knob(kind="flag", name="--draft-max", choices=(8, 16), when={"--spec-type": ("ngram", "eagle")})
    kinds = Knob(kind="flag", name="--spec-type", choices=("none", "ngram", "eagle"))
    found = combinations(space(kinds, drafts), {"--spec-type": None, "--draft-max": None})
    assert found == (
        {"--spec-type": "none"},
        {"--spec-type": "ngram", "--draft-max": 8},
        {"--spec-type": "ngram", "--draft-max": 16},
        {"--spec-type": "eagle", "--draft-max": 8},
        {"--spec-type": "eagle", "--draft-max": 16},
    )


def test_the_baseline_as_a_point_of_the_space() -> None:
    assert as_it_is(space(THREADS, SLOTS, MLOCK, SHARE), STANDING) == {
        "--threads": 2,
        "--parallel": 1,
        "--mlock": False,
        "--share": 0.8,
    }
    assert as_it_is(space(THREADS), {"--threads": "64"}) is None
    assert as_it_is(space(THREADS), {"--threads": None}) is None
    assert as_it_is(space(SLOTS), {"--parallel": "3"}) is None


def test_a_dead_end_rules_out_whatever_holds_it() -> None:
    flag, other, third = Flag(flag="--a", value="1"), Flag(flag="--b", value="2"), Flag(flag="--c", value="3")
    nothing: frozenset[str] = frozenset()

    def dead(*members: Flag) -> frozenset[str]:
        return frozenset({change_key(ChangeSet(members=members))})

    both = ChangeSet(members=(flag, other, third))
    assert is_dead(both, dead(flag), nothing)
    assert is_dead(both, dead(other, flag), nothing)
    assert is_dead(both, dead(flag, other, third), nothing)
    assert not is_dead(both, dead(Flag(flag="--a", value="9")), nothing)
    assert is_dead(both, nothing, frozenset({describe(other)}))
    assert not is_dead(both, nothing, frozenset({"flag --b 9"}))


def new(known: Sequence[Values]) -> Callable[[Values], bool]:
    return lambda values: values not in known


def search(
    found: Space,
    worth: Callable[[Values], float | None],
    *,
    budget: int,
    allowed: Callable[[Values], bool] | None = None,
) -> list[Tried]:
    tried: list[Tried] = []
    while len(tried) < budget:
        known = [one.values for one in tried]
        values = propose(
            found,
            tried,
            STANDING,
            launches_left=budget - len(tried),
            is_open=lambda each, known=known: each not in known and (allowed is None or allowed(each)),  # type: ignore[misc]
        )
        if values is None:
            break
        tried.append(Tried(values=values, effect=worth(values)))
    return tried


def test_a_space_that_fits_into_the_budget_is_launched_in_full_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    small = space(SLOTS, MLOCK)
    tried = search(small, lambda _: 0.0, budget=10)
    assert len(tried) == 6
    everything = combinations(small, STANDING)
    assert everything is not None
    assert all(values in [one.values for one in tried] for values in everything)
    assert [one.values for one in tried] != list(everything), "the order of the knobs must not be the order in time"


def test_a_larger_space_says_how_to_get_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None: ...

    monkeypatch.setattr("knowngood.reason.propose.find_spec", missing)
    with pytest.raises(UsageError, match="24 combinations for 10 launches") as caught:
        require_optuna(space(THREADS, SLOTS), STANDING, launches_left=10, is_open=new([]))
    assert 'pip install "knowngood[knobs]"' in caught.value.hint
    with pytest.raises(UsageError, match="endlessly many"):
        require_optuna(space(SHARE), STANDING, launches_left=10, is_open=new([]))
    require_optuna(space(THREADS), STANDING, launches_left=10, is_open=new([]))


def peak(values: Values) -> float | None:
    """A hill with its top at 6 threads and 4 slots; 8 threads fail."""
    threads, slots = int(values["--threads"]), int(values["--parallel"])
    return None if threads == 8 else -0.02 * (threads - 6) ** 2 - 0.05 * (slots - 4) ** 2


def test_optuna_finds_the_hill_proposes_nothing_twice_and_survives_failures() -> None:
    pytest.importorskip("optuna")
    tried = search(space(THREADS, SLOTS), peak, budget=18)
    assert len({tuple(one.values.items()) for one in tried}) == 18
    assert {"--threads": 6, "--parallel": 4} in [one.values for one in tried]
    again = search(space(THREADS, SLOTS), peak, budget=18)
    assert again == tried, "a search that is cut off must go on as if it had not been"


def test_what_is_closed_is_never_proposed_even_if_hardly_anything_is_left() -> None:
    pytest.importorskip("optuna")
    ranged = Knob(kind="flag", name="--threads", low=1, high=2000, step=1)
    only = {"--threads": 1234}
    values = propose(space(ranged), (), STANDING, launches_left=0, is_open=lambda each: each == only)
    assert values == only
    assert propose(space(ranged), (), STANDING, launches_left=5, is_open=lambda _: False) is None


def test_endless_ranges_logarithms_and_conditions_reach_optuna() -> None:
    pytest.importorskip("optuna")
    rate = Knob(kind="flag", name="--rate", low=0.001, high=1.0, log=True)
    batch = Knob(kind="flag", name="--batch", low=1, high=4096, step=1, log=True)
    mixed = space(SLOTS, msgspec_replace(rate, when={"--parallel": (4,)}), batch, SHARE)
    standing = {**STANDING, "--rate": None, "--batch": "512"}
    tried: list[Tried] = []
    for _ in range(15):
        values = propose(mixed, tried, standing, launches_left=100, is_open=lambda _: True)
        assert values is not None
        assert ("--rate" in values) == (values["--parallel"] == 4)
        assert 0.5 <= float(values["--share"]) <= 0.9
        tried.append(Tried(values=values, effect=float(values["--share"])))
