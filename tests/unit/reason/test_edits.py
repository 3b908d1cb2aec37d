import difflib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.errors import Refused
from knowngood.model.change import Edit, File, FileChange, Patch
from knowngood.reason.edits import parse_diff, plan, touched

PATH = "/srv/a.py"


def diff(before: bytes, after: bytes, old: str = "a/a.py", new: str = "b/a.py") -> bytes:
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        [line + b"\n" for line in before.split(b"\n")[:-1]],
        [line + b"\n" for line in after.split(b"\n")[:-1]],
        old.encode(),
        new.encode(),
    )
    return b"".join(lines)


def patch(content: bytes) -> Patch:
    return Patch(name="p.diff", root="/srv", diff=content)


def after(change: Edit | File | Patch, now: bytes | None) -> bytes | None:
    (edit,) = plan([change], {PATH: now})
    return edit.after


def test_an_edit_replaces_exactly_what_it_names() -> None:
    assert after(Edit(path=PATH, find="sm90", replace="sm120"), b"if sm90:\r\n\xff") == b"if sm120:\r\n\xff"


def test_the_plan_names_the_bytes_it_was_made_for() -> None:
    (edit,) = plan([Edit(path=PATH, find="a", replace="b")], {PATH: b"a"})
    assert edit.before == hashlib.sha256(b"a").hexdigest()


@pytest.mark.parametrize(("content", "count"), [(b"x x", 1), (b"", 1), (b"x", 2)])
def test_another_number_of_matches_is_refused(content: bytes, count: int) -> None:
    with pytest.raises(Refused, match=f"expected {count}"):
        plan([Edit(path=PATH, find="x", replace="y", count=count)], {PATH: content})


def test_the_refusal_names_the_lines() -> None:
    with pytest.raises(Refused, match="lines 1, 3"):
        plan([Edit(path=PATH, find="x", replace="y")], {PATH: b"x\n\nx"})


def test_a_file_that_is_not_there_cannot_be_edited() -> None:
    with pytest.raises(Refused, match="no file"):
        plan([Edit(path=PATH, find="x", replace="y")], {PATH: None})


def test_edits_of_one_file_build_on_each_other_and_are_one() -> None:
    changes = [Edit(path=PATH, find="a", replace="b"), Edit(path=PATH, find="b", replace="c")]
    (edit,) = plan(changes, {PATH: b"a"})
    assert edit.after == b"c"


def test_an_edit_that_changes_nothing_is_no_edit() -> None:
    assert plan([Edit(path=PATH, find="a", replace="a")], {PATH: b"a"}) == ()


def test_a_new_file_expects_none() -> None:
    (edit,) = plan([File(path=PATH, content=b"new")], {PATH: None})
    assert (edit.before, edit.after) == (None, b"new")


def test_a_diff_is_applied_exactly() -> None:
    before, wanted = b"one\ntwo\nthree\n", b"one\n2\nthree\nfour\n"
    assert after(patch(diff(before, wanted)), before) == wanted


def test_a_diff_made_for_other_lines_is_refused_without_fuzz() -> None:
    made = diff(b"one\ntwo\nthree\n", b"one\n2\nthree\n")
    with pytest.raises(Refused, match="hunk 1"):
        plan([patch(made)], {PATH: b"one\ntwo\nTHREE\n"})


def test_shifted_lines_are_refused_and_the_place_is_named() -> None:
    made = diff(b"one\ntwo\nthree\n", b"one\n2\nthree\n")
    with pytest.raises(Refused, match="stand at line 2"):
        plan([patch(made)], {PATH: b"zero\none\ntwo\nthree\n"})


def test_a_diff_may_create_and_delete() -> None:
    assert after(patch(diff(b"", b"new\n", "/dev/null")), None) == b"new\n"
    assert after(patch(diff(b"old\n", b"", new="/dev/null")), b"old\n") is None


def test_a_created_file_must_not_stand_there() -> None:
    with pytest.raises(Refused, match="stands already"):
        plan([patch(diff(b"", b"new\n", "/dev/null"))], {PATH: b"other"})


def test_a_missing_final_newline_is_kept_missing() -> None:
    bare = b"\n\\ No newline at end of file\n"
    made = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old" + bare + b"+new" + bare
    assert after(patch(made), b"old") == b"new"
    with pytest.raises(Refused):
        plan([patch(made)], {PATH: b"old\n"})


def test_carriage_returns_belong_to_their_lines() -> None:
    made = b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n a\rb\r\n-old\r\n+new\r\n"
    assert after(patch(made), b"a\rb\r\nold\r\n") == b"a\rb\r\nnew\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no diff\n",
        b"--- a/a.py\n+++ b/a.py\n",
        b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n",
        b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n?one\n",
        b"rename from a\nrename to b\n",
        b"GIT binary patch\n",
        b"--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n",
        b"--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_what_is_no_plain_diff_below_its_root_is_refused(content: bytes) -> None:
    with pytest.raises(Refused):
        parse_diff(content, name="p.diff")


def test_touched_paths_of_all_kinds_each_once() -> None:
    changes: list[FileChange] = [
        Edit(path="/x", find="a", replace="b"),
        patch(diff(b"a\n", b"b\n")),
        File(path="/x", content=b""),
    ]
    assert touched(changes) == ("/x", PATH)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c c\n"]), max_size=12)


@given(LINES, LINES)
def test_any_diff_of_difflib_leads_to_its_target(old: list[bytes], new: list[bytes]) -> None:
    before, wanted = b"".join(old), b"".join(new)
    made = diff(before, wanted)
    if made:
        (edit,) = plan([patch(made)], {PATH: before})
        assert edit.after == wanted
