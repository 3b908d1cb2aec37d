import gzip
from pathlib import Path

import pytest

from knowngood.app.without_lab import diagnose_log
from knowngood.errors import UsageError
from knowngood.faces.cli import run
from knowngood.flow.logs import log_blocks, read_blocks

LOG = b"fine\n" * 400_000 + b"OSError: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("parts", [1, 3])
def test_gzip_is_unpacked_whatever_its_name(tmp_path: Path, parts: int) -> None:
    path = tmp_path / "server.log"
    size = len(LOG) // parts + 1
    path.write_bytes(b"".join(gzip.compress(LOG[at : at + size]) for at in range(0, len(LOG), size)) + b"\0" * 512)
    assert b"".join(read_blocks(path)) == LOG
    assert max(map(len, read_blocks(path))) <= 1 << 20
    assert diagnose_log(path).line_number == 400_001


def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(LOG)[:-100])
    assert LOG.startswith(b"".join(read_blocks(path))[:100])


@pytest.mark.parametrize("content", [b"\x1f\x8bnot gzip at all", None])
def test_what_cannot_be_read_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.log"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.log"):
        list(read_blocks(path))
    assert list(log_blocks(tmp_path / "nowhere")) == []


def test_text_is_read_as_a_log() -> None:
    assert diagnose_log("fine\nOSError: [Errno 28] No space left on device").cause == "host_limits"


def test_the_command_uses_the_labs_rules_and_says_who_else_it_could_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "knowngood.toml").write_text('[server]\nengine = "openai"\ncommand = ["x"]\n')
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "proxy.toml").write_text(
        '[[rule]]\nid = "quota"\nmatch = "quota exceeded"\ncause = "host_limits"\nremedy = "ask for more"\n'
        'examples = ["quota exceeded"]\n'
    )
    (tmp_path / "server.log").write_text("a\nb\nproxy: quota exceeded\nOSError: [Errno 98] Address already in use\n")
    monkeypatch.chdir(tmp_path)
    run(["diagnose", "server.log"])
    told = capsys.readouterr().out
    assert "host_limits in proxy (fixable)" in told
    assert "> 3: proxy: quota exceeded" in told
    assert "remedy: ask for more" in told
    assert "not chosen, it came later: network_port_or_interface, line 4" in told
    run(["diagnose", "server.log", "--json"])
    assert '"rule":"proxy/quota"' in capsys.readouterr().out
