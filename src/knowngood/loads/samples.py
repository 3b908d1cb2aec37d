"""Reads raw samples back: one value per request, and the measured window. ``knowngood.loads.recording`` writes them."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from knowngood.errors import LoadError

# The error of a request that was in flight when the pass ended: no failure.
CUT: Final = "cut"
_PIECE: Final = 65536


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="header"):
    """First line of a samples file: version of its format, what was asked for, how the client was scheduled."""

    version: int
    plan: dict[str, object] = {}
    model: str = ""
    priority: str = ""
    unix_time: float = 0.0


class Sample(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="request"):
    """One request. Times are whole microseconds; instants count from the start of the pass.

    Attributes:
        index: Number of the request; below 0 in the warm-up.
        phase: ``measured`` requests make up the latencies; all phases count for throughput.
        scheduled_us: When it was due.
        sent_us: When the client began to send it.
        status: HTTP status; 0 if there was none.
        e2e_us: From ``sent_us`` to the end of the response.
        ttft_us: From ``sent_us`` to the first event with text; None if there was none.
        gaps_us: Between events with text.
        tokens: Tokens of the answer by the server's count; None if it did not say.
        prompt_tokens: Tokens of the prompt by the server's count; None if it did not say.
        error: Kind of failure; empty if all went well; ``cut`` if the pass ended first.
        detail: What the server or the system said about the failure.
    """

    index: int
    phase: Literal["warmup", "measured", "filler"]
    scheduled_us: int
    sent_us: int
    status: int
    e2e_us: int
    ttft_us: int | None
    gaps_us: list[int]
    tokens: int | None
    prompt_tokens: int | None
    error: str = ""
    detail: str = ""


class Span(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="window"):
    """The measured window, in microseconds from the start of the pass."""

    start_us: int
    end_us: int


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """A samples file.

    Attributes:
        header: Its first line.
        requests: All requests that were recorded, in the order they ended.
        window: The measured window; None if the pass was cut off in it.
        is_whole: False if the file ends in the middle of a frame.
    """

    header: Header
    requests: tuple[Sample, ...]
    window: Span | None
    is_whole: bool = True


_decoder = msgspec.json.Decoder(Header | Sample | Span)


def read_samples(path: Path) -> Samples:
    """Read a samples file, up to its last whole frame if its tail is cut off.

    Raises:
        LoadError: There is no such file, or it was not written by this client.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LoadError(f"cannot read the samples {path}: {error.strerror}", hint="was the pass started?") from error
    header, window, requests, taken = None, None, list[Sample](), 0
    try:
        for frame, end in frames(data):
            taken = end
            for line in frame.splitlines():
                match _decoder.decode(line):
                    case Header() as found:
                        header = found
                    case Sample() as found:
                        requests.append(found)
                    case Span() as found:
                        window = found
    except (zlib.error, msgspec.DecodeError) as error:
        raise LoadError(f"{path} is not a samples file, or is damaged: {error}") from error
    if header is None or header.version != 1:
        raise LoadError(
            f"{path} is not a samples file of version 1", hint="its first frame is missing or of another kind"
        )
    return Samples(header=header, requests=tuple(requests), window=window, is_whole=taken == len(data))


def frames(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each whole gzip frame with the offset at which it ends (RFC 1952: a file is a row of members)."""
    at = 0
    while at < len(data):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        parts: list[bytes] = []
        # Piece by piece: what a member leaves over is copied, which would cost the square of a large file's size.
        while not member.eof:
            piece = data[at : at + _PIECE]
            if not piece:
                return
            parts.append(member.decompress(piece))
            at += len(piece)
        at -= len(member.unused_data)
        yield b"".join(parts), at
