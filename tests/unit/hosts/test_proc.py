import os
import socket
from pathlib import Path

import pytest

from knowngood.hosts.agent import proc


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    return tmp_path


def test_a_name_with_blanks_and_parentheses(fake: Path) -> None:
    (fake / "7").mkdir()
    (fake / "7/stat").write_text("7 (a) b (c) R 1 7 5 0 -1 0 0 0 0 0 300 200 20 10 20 0 1 0 4242 0 0\n")
    found = proc.process_stat(7)
    assert found
    assert (found.state, found.parent, found.session, found.start) == ("R", 1, 5, 4242)
    assert (found.cpu_s, found.reaped_s) == (500 * proc.TICK_S, 30 * proc.TICK_S)
    assert found.lives


def test_nobody_is_none(fake: Path) -> None:
    assert proc.process_stat(7) is None
    assert proc.environment_of(7) == {}
    assert proc.arguments_of(7) == []
    assert proc.rss_mb(7) == 0.0
    assert proc.listening_ports([7]) == []
    assert fake.exists()


def test_busy_counts_stolen_time_but_not_idle_or_waiting(fake: Path) -> None:
    (fake / "stat").write_text("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 2 4 1000 2000 8 16 32 64 128\n")
    assert proc.busy_s() == pytest.approx(63 * proc.TICK_S)


def test_this_process() -> None:
    me = proc.process_table()[os.getpid()]
    assert me.parent == os.getppid()
    assert (
        proc.environment_of(me.pid).keys() <= {*os.environ, "PYTEST_CURRENT_TEST"} | proc.environment_of(me.pid).keys()
    )
    assert proc.rss_mb(me.pid) > 1


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_listening_port_of_this_process(family: socket.AddressFamily) -> None:
    try:
        server = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)
    except OSError:
        pytest.skip("NOT TESTED: no such address on this machine")
    with server:
        port: int = server.getsockname()[1]
        assert port in proc.listening_ports([os.getpid()])
    assert port not in proc.listening_ports([os.getpid()])


def test_an_environment_that_was_overwritten_is_not_half_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    block = b""

    def read(*_names: object) -> bytes:
        return block

    monkeypatch.setattr(proc, "read_proc", read)
    # setproctitle fills the front of it with zeros, and leaves the rest.
    block = b"\0\0\0\0LAST=1\0"
    assert proc.environment_of(1) == {}
    block = b"FIRST=1\0LAST=2\0"
    assert proc.environment_of(1) == {"FIRST": "1", "LAST": "2"}
