import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.errors import Refused
from knowngood.model.change import Change, ChangeSet, Edit, Env, File, Flag, Patch
from knowngood.model.diagnosis import Diagnosis
from knowngood.reason.edits import plan, touched
from knowngood.reason.items import Grain, by_risk, keep_hunks, pieces_of, signature, subset, suspects, take_apart
from knowngood.reason.patches import file_diff

BEFORE = "".join(f"line {number}\n" for number in range(1, 61)).encode()
AFTER = BEFORE.replace(b"line 5\n", b"five\nand more\n").replace(b"line 30\n", b"").replace(b"line 55\n", b"LV\n")
TWO_FILES = file_diff("a.py", BEFORE, AFTER) + file_diff("b.py", b"x\n", b"y\n")
PATCH = Patch(name="p.patch", root="/srv", diff=TWO_FILES)
FILES = {"/srv/a.py": BEFORE, "/srv/b.py": b"x\n"}
FLAG = Flag(flag="--x", value="1")


def changes(*members: Change, groups: tuple[tuple[int, ...], ...] = ()) -> ChangeSet:
    return ChangeSet(members=members, groups=groups)


def applies(part: ChangeSet) -> bool:
    try:
        plan(part.edits(), {path: FILES.get(path) for path in touched(part.edits())})
    except Refused:
        return False
    return True


def names(made: ChangeSet, grain: Grain = "hunk") -> list[tuple[str, ...]]:
    return [item.names for item in take_apart(made, grain, applies=applies)]


def test_a_patch_is_taken_apart_down_to_its_hunks() -> None:
    assert names(changes(FLAG, PATCH)) == [
        ("flag --x 1",),
        ("patch p.patch in /srv: a.py line 2",),
        ("patch p.patch in /srv: a.py line 27",),
        ("patch p.patch in /srv: a.py line 52",),
        ("patch p.patch in /srv: b.py line 1",),
    ]
    assert [len(item) for item in names(changes(PATCH), "file")] == [3, 1]
    assert [len(item) for item in names(changes(PATCH, FLAG), "member")] == [4, 1]


@given(st.sets(st.integers(0, 3), min_size=1))
def test_any_hunks_of_a_patch_apply_without_the_others(numbers: set[int]) -> None:
    part = keep_hunks(PATCH, numbers)
    after = {edit.path: edit.after for edit in plan([part], FILES)}
    wanted = BEFORE
    for number, (old, new) in enumerate(
        [(b"line 5\n", b"five\nand more\n"), (b"line 30\n", b""), (b"line 55\n", b"LV\n")]
    ):
        wanted = wanted.replace(old, new) if number in numbers else wanted
    assert after.get("/srv/a.py", BEFORE) == wanted
    assert after.get("/srv/b.py", b"x\n") == (b"y\n" if 3 in numbers else b"x\n")


def test_the_new_lines_of_a_hunk_are_counted_without_those_that_are_left_out() -> None:
    part = keep_hunks(PATCH, {1, 2})
    assert b"@@ -27,7 +27,6 @@" in part.diff
    assert b"@@ -52,7 +51,7 @@" in part.diff
    assert part.name == "p.patch (hunk 2, 3)"


def test_all_hunks_are_the_patch_itself() -> None:
    whole = changes(FLAG, PATCH)
    assert subset(whole, [item.pieces for item in take_apart(whole, "hunk", applies=applies)]) == whole


def test_a_file_that_is_made_has_no_parts() -> None:
    made = file_diff("new.py", None, b"1\n") + file_diff("a.py", BEFORE, AFTER)
    assert len(names(changes(Patch(name="n.patch", root="/srv", diff=made)))) == 4


def test_a_group_is_one_item_and_stays_one_in_a_part() -> None:
    env, file = Env(name="A", value="1"), File(path="/srv/c", content=b"1")
    whole = changes(env, FLAG, file, groups=((0, 2),))
    items = take_apart(whole, "hunk", applies=applies)
    assert [item.names for item in items] == [("env A=1", "file /srv/c"), ("flag --x 1",)]
    assert subset(whole, [items[0].pieces]) == changes(env, file, groups=((0, 1),))
    assert subset(whole, [items[1].pieces]) == changes(FLAG)


def test_edits_that_build_on_each_other_are_one_item() -> None:
    first = Edit(path="/srv/b.py", find="x", replace="yy")
    second = Edit(path="/srv/b.py", find="yy", replace="z")
    other = Edit(path="/srv/a.py", find="line 60", replace="last")
    assert [len(item) for item in names(changes(first, FLAG, second, other))] == [2, 1, 1]


def test_a_patch_on_top_of_another_is_one_item_with_it() -> None:
    on_top = Patch(name="q.patch", root="/srv", diff=file_diff("b.py", b"y\n", b"z\n"))
    found = names(changes(PATCH, on_top))
    assert [len(item) for item in found] == [1, 1, 1, 2]


def test_code_is_riskier_than_values_and_what_the_log_names_is_suspected() -> None:
    whole = changes(Flag(flag="--bad", value="1"), Edit(path="/srv/a.py", find="line 60", replace="x"), FLAG)
    diagnosis = Diagnosis(cause="bad_flag_or_env", line="error: unrecognized arguments: --bad 1", confidence=0.9)
    items = by_risk(take_apart(whole, "hunk", applies=applies), whole)
    assert [item.names[0] for item in items] == ["flag --bad 1", "flag --x 1", "edit /srv/a.py"]
    assert suspects(items, whole, diagnosis) == {0}
    assert suspects(items, whole, None) == frozenset()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("died after 0.4 s (exit status 1)", None), ("died after 12.9 s (exit status 1)", None), True),
        (("x", Diagnosis(cause="a", component="k", line="l 1")), ("y", Diagnosis(cause="a", component="k")), True),
        (("x", Diagnosis(cause="a", component="k")), ("x", Diagnosis(cause="b", component="k")), False),
        (
            ("x", Diagnosis(cause="unknown", abstained=True, line="bad handle 0x7f2a at 'one'")),
            ("y", Diagnosis(cause="unknown", abstained=True, line="bad handle 0x11bc at 'two'")),
            True,
        ),
        (
            ("x", Diagnosis(cause="unknown", abstained=True, line="no kernel image")),
            ("x", Diagnosis(cause="unknown", abstained=True, line="illegal access")),
            False,
        ),
    ],
)
def test_failures_are_the_same_whatever_their_numbers(
    one: tuple[str, Diagnosis | None], other: tuple[str, Diagnosis | None], *, same: bool
) -> None:
    assert (signature(*one) == signature(*other)) is same


def test_a_set_without_patches_has_a_piece_a_member() -> None:
    assert [piece.name for piece in pieces_of(changes(FLAG, Env(name="A")))] == ["flag --x 1", "env -A"]
