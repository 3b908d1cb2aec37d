"""Cut a small model with another vocabulary out of a GGUF file, with nothing but the standard library.

Source of the layout: ggml, ``docs/gguf.md``, version 3, little-endian. Metadata that is not changed is copied byte for
byte, so that only the two values this module is about have to be understood.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from knowngood.errors import UsageError

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
STRING, ARRAY = 8, 9
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Metadata value type to its size in bytes."""
CHUNK = 1 << 20

SWAPPED_TOKEN = 1000
"""Any token that is no special one; llama.cpp compares the texts of all tokens from id 5 on."""


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor: its entry up to the offset, where its data starts (from the data's begin), how long it is."""

    name: str
    head: bytes
    offset: int
    size: int


class Cursor:
    """A position in a file's head."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """Bytes from here on."""
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        """One integer in ``struct`` notation."""
        (value,) = struct.unpack(f"<{form}", self.take(struct.calcsize(form)))
        return int(value)

    def text(self) -> bytes:
        """One string, without its length."""
        return self.take(self.number("Q"))

    def skip_value(self, kind: int) -> None:
        """Step over one metadata value."""
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            item, count = self.number("I"), self.number("Q")
            if item in SCALARS:
                self.take(SCALARS[item] * count)
            else:
                for _ in range(count):
                    self.skip_value(item)
        else:
            self.take(SCALARS[kind])


def read_tensors(cursor: Cursor, count: int, data_size: int) -> Iterator[Tensor]:
    """Entries of the tensor table; each tensor ends where the next one begins, padding included."""
    found: list[tuple[str, bytes, int]] = []
    for _ in range(count):
        start = cursor.at
        name = cursor.text().decode()
        cursor.take(8 * cursor.number("I") + 4)
        found.append((name, cursor.data[start : cursor.at], cursor.number("Q")))
    ends = sorted([*(offset for *_, offset in found), data_size])
    for name, head, offset in found:
        yield Tensor(name=name, head=head, offset=offset, size=ends[ends.index(offset) + 1] - offset)


def swap_tokens(cursor: Cursor, index: int) -> bytes:
    """Let two neighbours of a string array change places, so that all texts stay unique; return the array's value."""
    start = cursor.at
    cursor.number("I")
    texts = [cursor.text() for _ in range(cursor.number("Q"))]
    texts[index], texts[index + 1] = texts[index + 1], texts[index]
    return cursor.data[start : start + 12] + b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def is_kept(name: str, layers: int) -> bool:
    """Tell whether a tensor belongs to the first ``layers`` layers, or to none."""
    part = name.split(".")
    return part[0] != "blk" or int(part[1]) < layers


def cut(source: Path, target: Path, *, layers: int) -> None:
    """Write a model with the first layers of another and two tokens of its vocabulary swapped.

    Args:
        source: A GGUF file, version 3.
        target: File to write.
        layers: Number of layers to keep.

    Raises:
        UsageError: The source is no such file.
    """
    with source.open("rb") as file:
        cursor = Cursor(read_head(file, source))
        cursor.take(8)
        tensor_count, value_count = cursor.number("Q"), cursor.number("Q")
        metadata = bytearray()
        for _ in range(value_count):
            start = cursor.at
            key, kind = cursor.text().decode(), cursor.number("I")
            before = cursor.data[start : cursor.at]
            if key.endswith(".block_count"):
                cursor.skip_value(kind)
                metadata += before + struct.pack("<I", layers)
            elif key == "tokenizer.ggml.tokens":
                metadata += before + swap_tokens(cursor, SWAPPED_TOKEN)
            else:
                cursor.skip_value(kind)
                metadata += cursor.data[start : cursor.at]
        size = source.stat().st_size
        tensors = list(read_tensors(cursor, tensor_count, size))
        data_at = -(-cursor.at // ALIGNMENT) * ALIGNMENT
        kept = [clip(tensor, size - data_at) for tensor in tensors if is_kept(tensor.name, layers)]
        with target.open("wb") as out:
            out.write(MAGIC + struct.pack("<IQQ", VERSION, len(kept), value_count) + metadata)
            offset = 0
            for tensor in kept:
                out.write(tensor.head + struct.pack("<Q", offset))
                offset += -(-tensor.size // ALIGNMENT) * ALIGNMENT
            for tensor in kept:
                out.write(b"\0" * (-out.tell() % ALIGNMENT))
                copy(file, out, data_at + tensor.offset, tensor.size)


def clip(tensor: Tensor, data_size: int) -> Tensor:
    """Let a tensor end where the file does."""
    return msgspec.structs.replace(tensor, size=min(tensor.size, data_size - tensor.offset))


def read_head(file: BinaryIO, source: Path) -> bytes:
    """Bytes that hold metadata and tensor table."""
    head = file.read(16 * CHUNK)
    if head[:4] != MAGIC or struct.unpack("<I", head[4:8]) != (VERSION,):
        raise UsageError(f"{source} is no GGUF file of version {VERSION}", hint="Name a model in GGUF format.")
    return head


def copy(source: BinaryIO, target: BinaryIO, start: int, size: int) -> None:
    """Copy a span of bytes."""
    source.seek(start)
    while size > 0:
        chunk = source.read(min(CHUNK, size))
        if not chunk:
            return
        target.write(chunk)
        size -= len(chunk)
