import struct
from pathlib import Path

import pytest

from knowngood.demo import gguf
from knowngood.demo.gguf import Cursor, cut, read_tensors
from knowngood.errors import UsageError


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def strings(*values: str) -> bytes:
    return struct.pack("<IQ", gguf.STRING, len(values)) + b"".join(text(value) for value in values)


def entry(name: str, offset: int) -> bytes:
    return text(name) + struct.pack("<IQIQ", 1, 8, 0, offset)


def write_model(path: Path) -> None:
    """Two layers, three tokens, one value that is only copied; a tensor is 32 bytes of its own number."""
    values = (
        text("general.name") + struct.pack("<I", gguf.STRING) + text("test"),
        text("llama.block_count") + struct.pack("<II", 4, 2),
        text("tokenizer.ggml.tokens") + struct.pack("<I", gguf.ARRAY) + strings("a", "bb", "ccc"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ3f", gguf.ARRAY, 6, 3, 0.1, 0.2, 0.3),
    )
    names = ("output.weight", "blk.0.w", "blk.1.w", "blk.0.v")
    head = gguf.MAGIC + struct.pack("<IQQ", gguf.VERSION, len(names), len(values)) + b"".join(values)
    head += b"".join(entry(name, 32 * at) for at, name in enumerate(names))
    head += b"\0" * (-len(head) % gguf.ALIGNMENT)
    path.write_bytes(head + b"".join(bytes([at]) * 32 for at in range(len(names))))


def test_layers_go_and_two_tokens_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "SWAPPED_TOKEN", 1)
    write_model(tmp_path / "m.gguf")
    cut(tmp_path / "m.gguf", tmp_path / "d.gguf", layers=1)
    data = (tmp_path / "d.gguf").read_bytes()
    assert strings("a", "ccc", "bb") in data
    assert text("llama.block_count") + struct.pack("<II", 4, 1) in data
    assert text("general.name") + struct.pack("<I", gguf.STRING) + text("test") in data

    cursor = Cursor(data)
    cursor.take(8)
    assert (cursor.number("Q"), cursor.number("Q")) == (3, 4)
    for _ in range(4):
        cursor.text()
        cursor.skip_value(cursor.number("I"))
    tensors = list(read_tensors(cursor, 3, 96))
    start = -(-cursor.at // gguf.ALIGNMENT) * gguf.ALIGNMENT
    found = {each.name: data[start + each.offset :][: each.size] for each in tensors}
    assert found == {"output.weight": b"\0" * 32, "blk.0.w": b"\1" * 32, "blk.0.v": b"\3" * 32}


def test_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"hello world")
    with pytest.raises(UsageError, match="is no GGUF file"):
        cut(tmp_path / "m.gguf", tmp_path / "d.gguf", layers=1)
    assert not (tmp_path / "d.gguf").exists()
