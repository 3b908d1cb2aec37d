"""A client that applies over a real sshd is killed at random moments: no host is left mixed.

20 cuts by default; ``KNOWNGOOD_CUTS=200`` makes as many.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowngood.hosts.agent.frames import pack
from knowngood.hosts.ssh import SshHost
from knowngood.testing.loopback import NAME, find_sshd, loopback

CUTS = int(os.environ.get("KNOWNGOOD_CUTS", "20"))
NAMES = ("a.py", "b.py", "c.py")
SIZE = 200_000

CLIENT = """
import hashlib, sys
from pathlib import Path
from knowngood.hosts.ssh import SshHost
from knowngood.model.files import FileEdit

folder, name, tx = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
host = SshHost(name, state=str(folder / "state"), ttl_s=float(sys.argv[4]))
edits = []
for path in sorted((folder / "srv").glob("*.py")):
    old = path.read_bytes()
    edits.append(FileEdit(path=str(path), before=hashlib.sha256(old).hexdigest(), after=old.replace(b"1", b"2", 1)))
host.holder()
with host.lease(purpose="a cut"):
    print("begin", flush=True)
    host.journal.apply(tx, edits)
    print("applied", flush=True)
    host.journal.keep(tx)
    print("kept", flush=True)
"""


@pytest.fixture
def programs(room: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if find_sshd() is None:
        pytest.skip("NOT TESTED: there is no sshd on this machine (apt-get install openssh-server)")
    with loopback(room / "sshd") as folder:
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield folder


def version(path: Path) -> str:
    data = path.read_bytes()
    if len(data) != SIZE:
        return "torn"
    return {b"V = 1": "old", b"V = 2": "new"}.get(data[:5], "torn")


def build(srv: Path) -> dict[str, tuple[bytes, int, int]]:
    srv.mkdir(exist_ok=True)
    for name in NAMES:
        (srv / name).write_bytes(b"V = 1\n".ljust(SIZE, b"#"))
    return look(srv)


def look(srv: Path) -> dict[str, tuple[bytes, int, int]]:
    """Everything in the folder: bytes, inode, time."""
    return {
        path.name: (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(srv.iterdir())
        if path.is_file()
    }


def kill_session(client: "subprocess.Popen[str]") -> None:
    """Kill the client and its ssh at once, as a laptop that loses power does."""
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()


def test_no_cut_leaves_a_mixed_host(room: Path, programs: Path) -> None:
    rng = random.Random(7)
    srv = room / "srv"
    ends: Counter[str] = Counter()
    watcher = SshHost(NAME, state=str(room / "state"))
    good = build(srv)
    for number in range(CUTS):
        command = [sys.executable, "-c", CLIENT, str(room), NAME, f"cut-{number}", "0.3"]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert client.stdout
        assert client.stdout.readline() == "begin\n"
        time.sleep(rng.uniform(0.0, 0.06))
        kill_session(client)
        said = client.stdout.read()
        client.stdout.close()
        # Nobody does anything: the host itself sees to it that it is whole again.
        settle(watcher)
        shown = {version(srv / name) for name in NAMES}
        assert len(shown) == 1, (number, shown)
        state = watcher.journal.transactions()
        if shown == {"new"}:
            assert [tx.state for tx in state] == ["kept"], (number, state)
            watcher.journal.revert(f"cut-{number}")
        else:
            # What was acknowledged as kept is never lost.
            assert "kept" not in said, number
            assert list(state) == []
        assert look(srv) == good, number
        ends[shown.pop()] += 1
    watcher.close()
    assert ends["old"] > 0, ends


def settle(host: SshHost) -> None:
    until = time.monotonic() + 30
    while host.holder():
        assert time.monotonic() < until, "the lease does not end"
        time.sleep(0.02)


def test_a_request_cut_in_transfer_starts_nothing(room: Path, programs: Path) -> None:
    srv = room / "srv"
    good = build(srv)
    host = SshHost(NAME, state=str(room / "state"))
    assert host.holder() == ""
    process = host.connection.process
    assert process
    assert process.stdin
    after = [(str(srv / name), None, b"x" * SIZE) for name in NAMES]
    frame = pack({"session": "s", "number": 1, "verb": "apply", "arguments": {"tx": "t", "edits": after}})
    process.stdin.write(frame[: len(frame) // 2])
    process.stdin.close()
    process.wait()
    host.close()
    other = SshHost(NAME, state=str(room / "state"))
    assert list(other.journal.transactions()) == []
    other.close()
    assert look(srv) == good
