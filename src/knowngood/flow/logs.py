"""Logs as blocks of bytes, whatever they come from: a file, a gzipped one, standard input."""

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from knowngood.errors import UsageError

BLOCK = 1 << 20
GZIP = b"\x1f\x8b"
GZIP_WINDOW = 31
"""zlib's name for its largest window with a header of gzip."""
STDIN = "-"


def log_blocks(path: Path) -> Iterator[bytes]:
    """Blocks of a server's log as it stands, from its start; none if there is no log."""
    try:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(BLOCK), b"")
    except FileNotFoundError:
        return


def read_blocks(name: Path | str) -> Iterator[bytes]:
    """Blocks of a log that a user names.

    Args:
        name: Its path; ``-`` is standard input. What begins like gzip is unpacked.

    Raises:
        UsageError: It cannot be read, or is damaged.
    """
    try:
        with open(0 if str(name) == STDIN else name, "rb", closefd=str(name) != STDIN) as file:
            yield from unpacked(file)
    except OSError as error:
        hint = "name a log file, or - for standard input"
        raise UsageError(f"{name} cannot be read: {error.strerror or error}", hint=hint) from error
    except zlib.error as error:
        raise UsageError(f"{name} is damaged: {error}", hint="unpack it by hand as far as it goes") from error


def unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Blocks of a file, unpacked if it is gzipped."""
    blocks = iter(lambda: file.read(BLOCK), b"")
    head = next(blocks, b"")
    whole = chain((head,), blocks)
    return gunzipped(whole) if head.startswith(GZIP) else whole


def gunzipped(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack gzip, one member after the other; what is cut off is read as far as it goes."""
    unpacker = zlib.decompressobj(GZIP_WINDOW)
    for block in blocks:
        rest = block
        while rest:
            yield unpacker.decompress(rest, BLOCK)
            if unpacker.eof:
                rest = unpacker.unused_data.lstrip(b"\0")
                unpacker = zlib.decompressobj(GZIP_WINDOW)
            else:
                rest = unpacker.unconsumed_tail
    yield unpacker.flush()
