"""llama-server's pages as values: the fields that effect proofs read (llama.cpp, ``tools/server``)."""

import re

import msgspec

from knowngood.engines.decode import decode


class SlotParams(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling and speculation of the request that a slot served last.

    Attributes:
        speculative_types: Comma-separated names.
    """

    speculative_types: str = msgspec.field(default="", name="speculative.types")


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``/slots``: context in tokens, whether it speculates; ``params`` stands there after a request."""

    n_ctx: int
    speculative: bool = False
    params: SlotParams | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``default_generation_settings`` of ``/props``."""

    params: dict[str, object] = {}


class Props(msgspec.Struct, frozen=True, kw_only=True):
    """``/props``; what an older server leaves out is None."""

    default_generation_settings: Settings = Settings()
    total_slots: int | None = None
    model_alias: str | None = None
    model_path: str | None = None
    chat_template: str | None = None


COUNTERS = re.compile(r"^llamacpp:spec_decode_num_(draft|accepted)_tokens_total(?:\{[^}]*\})? (\d+)", re.MULTILINE)


def read_props(pages: dict[str, str]) -> Props:
    """``/props``, empty if it did not answer or holds something else."""
    return decode(pages.get("/props", ""), Props) or Props()


def read_slots(pages: dict[str, str]) -> tuple[Slot, ...]:
    """``/slots``, empty if it did not answer or holds something else."""
    return decode(pages.get("/slots", ""), tuple[Slot, ...]) or ()


def read_counters(pages: dict[str, str]) -> dict[str, int]:
    """Tokens drafted (``draft``) and accepted (``accepted``) so far, from ``/metrics``; empty on an older server."""
    return {name: int(count) for name, count in COUNTERS.findall(pages.get("/metrics", ""))}
