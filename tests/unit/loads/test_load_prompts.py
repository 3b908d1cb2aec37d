from pathlib import Path

import pytest

from knowngood.errors import UsageError
from knowngood.loads.prompts import read_prompts


def test_text_files_hold_one_prompt_per_line(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes("one\n\n  two \r\nthree\u2028still three".encode())
    assert read_prompts(path) == ("one", "  two ", "three\u2028still three")


def test_json_lines_hold_a_prompt_key(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a\\nb"}\n\n{"prompt": "c", "more": 1}\n')
    assert read_prompts(path) == ("a\nb", "c")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("p.txt", b"\n \n", "has no prompt"),
        ("p.txt", b"\xff\xfe", "cannot read"),
        ("p.jsonl", b'{"prompt": "a"}\n{"text": "b"}\n', "line 2: no text under the key 'prompt'"),
        ("p.jsonl", b'{"prompt": ""}\n', "line 1: no text"),
        ("p.jsonl", b"[1]\n", "line 1: no text"),
        ("p.jsonl", b"{\n", "line 1: not JSON"),
    ],
)
def test_bad_files_are_told_by_line(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=says):
        read_prompts(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the prompt file"):
        read_prompts(tmp_path / "none.txt")
