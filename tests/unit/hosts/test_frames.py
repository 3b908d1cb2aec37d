import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.hosts.agent.frames import Cut, pack, unpack

MESSAGE = {"verb": "look", "arguments": {"path": "/é", "data": b"\0\xff", "none": None}}
MESSAGES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key != "base64:"), inner),
)


@given(MESSAGES)
def test_what_is_packed_is_unpacked(message: object) -> None:
    assert unpack(io.BytesIO(pack(message))) == message


def test_frames_follow_each_other() -> None:
    stream = io.BytesIO(pack(1) + pack(MESSAGE) + pack([b""]))
    assert [unpack(stream) for _ in range(3)] == [1, MESSAGE, [b""]]
    with pytest.raises(Cut):
        unpack(stream)


def test_a_frame_cut_anywhere_is_none() -> None:
    frame = pack(MESSAGE)
    for length in range(len(frame)):
        with pytest.raises(Cut):
            unpack(io.BytesIO(frame[:length]))


def test_a_frame_with_one_wrong_byte_is_none() -> None:
    frame = pack(MESSAGE)
    for at in range(frame.index(b"\n") + 1, len(frame)):
        with pytest.raises(Cut):
            unpack(io.BytesIO(frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]))


def test_noise_is_no_frame() -> None:
    for noise in (b"Welcome to this machine\n", b"99999999999 aa\n", b"-1 aa\n", b"\n"):
        with pytest.raises(Cut):
            unpack(io.BytesIO(noise))
