"""Messages on a byte stream: length and digest first, so that a cut one is recognised and starts nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import IO, Any

MAGIC = b"knowngood agent 1\n"
HEADER_BYTES = 100
LONGEST_FRAME = 1 << 30
BYTES_KEY = "base64:"


class Cut(Exception):
    """The stream ended, or what came is no whole frame."""


def pack(message: Any) -> bytes:
    """A frame: a line with length and SHA-256, then JSON; bytes in it travel as base64."""
    body = json.dumps(message, default=pack_bytes, separators=(",", ":")).encode("ascii")
    return b"%d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)


def unpack(stream: IO[bytes]) -> Any:
    """The next frame's message.

    Raises:
        Cut: The stream ended before its last byte, or the bytes are not what was sent.
    """
    words = stream.readline(HEADER_BYTES).split()
    if len(words) != len(("length", "digest")) or not words[0].isdigit() or int(words[0]) > LONGEST_FRAME:
        raise Cut
    body = stream.read(int(words[0]))
    if hashlib.sha256(body).hexdigest().encode() != words[1]:
        raise Cut
    return json.loads(body, object_hook=unpack_bytes)


def pack_bytes(value: object) -> dict[str, str]:
    """What JSON has no word for."""
    if isinstance(value, bytes):
        return {BYTES_KEY: base64.b64encode(value).decode("ascii")}
    raise TypeError(type(value).__name__)


def unpack_bytes(found: dict[str, Any]) -> Any:
    """The reverse of ``pack_bytes``."""
    return base64.b64decode(found[BYTES_KEY]) if set(found) == {BYTES_KEY} else found
