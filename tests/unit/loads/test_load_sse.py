from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.loads.sse import EventStream

STREAM = (
    b": hello\n\ndata: one\n\nevent: x\r\ndata: two\r\ndata:  lines\r\n\r\ndata:three\rid: 4\r\rid: 5\n\n"
    b"data\n\ndata: [DONE]\n\n"
)
EVENTS = [b"one", b"two\n lines", b"three", b"", b"[DONE]"]


def test_events_are_the_same_wherever_the_bytes_are_cut() -> None:
    for cut in range(len(STREAM) + 1):
        stream = EventStream()
        assert stream.feed(STREAM[:cut]) + stream.feed(STREAM[cut:]) == EVENTS


def test_bytes_may_come_one_by_one() -> None:
    stream = EventStream()
    assert [event for at in range(len(STREAM)) for event in stream.feed(STREAM[at : at + 1])] == EVENTS


@given(
    texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20), max_size=6),
    end=st.sampled_from([b"\n", b"\r\n"]),
    cuts=st.lists(st.integers(0, 300), max_size=8),
)
def test_any_texts_and_any_cuts(texts: list[str], end: bytes, cuts: list[int]) -> None:
    raw = b"".join(b"data: " + text.encode() + end + end for text in texts)
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    stream = EventStream()
    got = [event for a, b in pairwise(edges) for event in stream.feed(raw[a:b])]
    assert got == [text.encode() for text in texts]


@pytest.mark.parametrize("raw", [b"", b"data: never ended", b"data: never ended\n", b": comment\n\n", b"\n\n\n\n"])
def test_what_is_no_event(raw: bytes) -> None:
    assert EventStream().feed(raw) == []
