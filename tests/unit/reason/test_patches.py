"""A diff that we write is one that we, and git, apply to the byte."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.model.change import Patch
from knowngood.reason.edits import plan
from knowngood.reason.patches import file_diff, is_text

LINES = st.lists(st.sampled_from([b"a", b"b", b"", b"\xff\xe4", b"c\r", b"- x", b"+++ y", b"\x0c"]), max_size=12)


def joined(lines: list[bytes], end: bytes) -> bytes:
    return b"\n".join(lines) + end


TEXT = st.builds(joined, LINES, st.sampled_from([b"", b"\n"]))


def applied(before: bytes | None, diff: bytes) -> bytes | None:
    (edit,) = plan([Patch(name="d", root="/r", diff=diff)], {"/r/f x": before})
    return edit.after


@given(TEXT, TEXT)
def test_it_leads_from_one_to_the_other(before: bytes, after: bytes) -> None:
    diff = file_diff("f x", before, after)
    assert (applied(before, diff) if diff else before) == after


@given(TEXT)
def test_creation_and_deletion(content: bytes) -> None:
    if content:
        assert applied(None, file_diff("f x", None, content)) == content
        assert applied(content, file_diff("f x", content, None)) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\ntwo\n", b"one\n2"),
        (b"caf\xe9\r\nx\r\n", b"caf\xe9\r\ny\r\n"),
        (None, b"new\n"),
        (b"old\n", None),
        (b"", b"something"),
        (b"a\rb\nc\n", b"a\rb\nd\n"),
    ],
)
def test_git_applies_it(tmp_path: Path, before: bytes | None, after: bytes | None) -> None:
    target = tmp_path / "f x"
    if before is not None:
        target.write_bytes(before)
    subprocess.run(["git", "apply"], cwd=tmp_path, input=file_diff("f x", before, after), check=True)
    assert (target.read_bytes() if target.exists() else None) == after


def test_zero_bytes_and_great_length_are_no_text() -> None:
    assert is_text(b"x\n", None)
    assert not is_text(b"x\0y", None)
    assert not is_text(None, b"x" * 1_000_001)
