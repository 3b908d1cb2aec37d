"""Pages of a server as values of a known shape."""

from typing import TypeVar

import msgspec

Page = TypeVar("Page")


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """``/version`` of vLLM and TensorRT-LLM."""

    version: str = ""


def decode(text: str, kind: type[Page]) -> Page | None:
    """JSON of a known shape, or None."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None
