import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.model.pattern import Pattern, shape_of


def finds(pattern: str, line: str) -> bool:
    return Pattern(pattern).finds(line, line.lower())


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("disk full", "the DISK full.", True),
        ("disk full", "disk  full", False),
        ("MemoryError", "OutOfMemoryError", False),
        ("MemoryError", "x.MemoryError: y", True),
        ("Errno 98", "Errno 981", False),
        ("Errno 98", "[Errno 98] x", True),
        ("argument", "arguments", False),
        ("argument*", "arguments", True),
        ("value 'sm_12*", "value 'sm_121a'", True),
        ("needs * devices", "needs >= 2 devices", True),
        ("needs * devices", "devices needs", False),
        ("a dot. a (paren) [set]", "a dot. a (paren) [set]", True),
        ("a dot. a", "a dotx a", False),
        ("one*two*one", "one two", False),
        ("one*two*one", "two one two one", True),
    ],
)
def test_a_pattern_is_text_with_stars(pattern: str, line: str, expected: bool) -> None:  # noqa: FBT001
    assert finds(pattern, line) is expected
    assert not expected or Pattern(pattern).may_stand(shape_of(line.encode()))


def test_the_key_is_the_rarest_whole_word() -> None:
    assert Pattern("CUDA error: misaligned address").key == "misaligned"
    assert Pattern("*failed* here").key == "here"
    assert Pattern("sm_12*").key == ""
    assert Pattern("*ab*").key == ""


TEXT = st.text(st.sampled_from("aAbB1_ .*(\\[+x\n"), max_size=30)


@given(TEXT.filter(lambda text: text.strip("*") != ""), TEXT)
def test_whoever_finds_a_line_finds_its_shape_and_its_key(pattern: str, line: str) -> None:
    one = Pattern(pattern)
    if one.finds(line, line.lower()):
        shape = shape_of(line.encode())
        assert one.may_stand(shape)
        assert not one.key or one.key.encode() in shape.split()


@given(TEXT.filter(lambda text: text.strip("*") != ""), TEXT, TEXT)
def test_a_pattern_finds_itself(pattern: str, before: str, after: str) -> None:
    line = f"{before} {pattern.replace('*', ' ')} {after}"
    assert finds(pattern, line)


def test_no_line_is_slow() -> None:
    line = "failed to " * 100_000
    started = time.process_time()
    assert not finds("failed*to*failed*to*failed*to*never", line)
    assert not Pattern("a*a*a*a*a*a*b").compiled.match("a " * 50_000)
    assert time.process_time() - started < 30, "quadratic work would take hours"
    assert re.search("never", line) is None
