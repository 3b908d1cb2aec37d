"""A lab around a real process on a real port: fast, exact in time, and without a model."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from knowngood.demo.model import fetch_model
from knowngood.errors import KnowngoodError
from knowngood.testing.loopback import NAME, find_sshd, loopback

# The tests on llama.cpp's real server read this when they are imported; without the model they are skipped, loudly.
try:
    os.environ.setdefault("KNOWNGOOD_TEST_MODEL", str(fetch_model()))
except KnowngoodError as error:
    sys.stderr.write(f"tests on the real model are skipped: {error.message}\n")

SERVER = """\
import sys
from pathlib import Path
from knowngood.testing.sse_server import main
pace = Path(__file__).with_name("pace.txt").read_text().split()[0]
print("pace", pace, flush=True)
main([*sys.argv[1:], "--itl-ms", pace])
"""

LAB = """\
[server]
engine = "openai"
command = [{python}, {server}, "--port", "{port}", "--ttft-ms", "5"]
port = {port}
ready_timeout = "30s"
stop_grace = "5s"

[[workload]]
concurrency = 2
duration_s = 0.8
osl = 16

[objective]
metric = "output_tok_s"

[guards]
answers = "off"

[verdict]
profile = "quick"
baseline_pairs = 2
foreign_cores = 2.0
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Finished:
    """A command that ended: status, what it printed, its JSON."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class RealLab:
    """A lab's folder and the commands run in it, with a host state of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
        self.pace = root / "pace.txt"
        self.state = root / "state"
        self.pace.write_text("10 ms between tokens\n")
        (root / "server.py").write_text(SERVER)
        self.write(LAB)

    def write(self, text: str) -> None:
        server = self.root / "server.py"
        names = {"python": json.dumps(sys.executable), "server": json.dumps(str(server)), "port": self.port}
        (self.root / "knowngood.toml").write_text(text.format(**names))

    def experiment(self, name: str, text: str) -> str:
        path = self.root / f"{name}.toml"
        path.write_text(f'claim = "{name}"\n{text}')
        return path.name

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "KNOWNGOOD_STATE": str(self.state), "NO_COLOR": "1"}

    def start(self, *args: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "knowngood", *args],
            cwd=self.root,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, timeout: float = 120) -> Finished:
        with self.start(*args) as process:
            out, err = process.communicate(timeout=timeout)
            return Finished(process.returncode, out, err)

    def finish(self, process: "subprocess.Popen[str]", timeout: float = 60) -> Finished:
        out, err = process.communicate(timeout=timeout)
        return Finished(process.returncode, out, err)

    def servers(self) -> list[int]:
        """Live processes of this lab's server."""
        found: list[int] = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    line = (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.root / "server.py").encode() in line and f"\0{self.port}\0".encode() in line:
                    found.append(int(folder.name))
        return found

    def wait_for_server(self, timeout: float = 30) -> int:
        """Process id of the server once it answers."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0 and (found := self.servers()):
                    return found[0]
            time.sleep(0.02)
        raise AssertionError("no server came up")

    def assert_known_good(self) -> None:
        """No process, no taken port, the files as they were, and the tool says so, too."""
        assert self.servers() == []
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", self.port)) != 0
        status = self.run("status", "--json")
        assert status.status == 0, status
        assert status.json["status"]["known_good"] is True

    def end(self) -> None:
        for pid in self.servers():
            os.kill(pid, signal.SIGKILL)


FAR = f'[host]\naddress = "ssh://{NAME}"\n{{host}}\n[lease]\nttl = "4s"\n'


@pytest.fixture
def move_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Have a lab's host reached over a real sshd; further lines of ``[host]`` may be given."""
    if find_sshd() is None:
        pytest.skip("NOT TESTED: there is no sshd on this machine (apt-get install openssh-server)")
    with ExitStack() as stack:

        def move(lab: RealLab, host: str = "") -> None:
            names = ("PYTHONPATH", "PIP_NO_INDEX", "PIP_FIND_LINKS", "VLLM_CACHE_ROOT")
            env = {name: os.environ[name] for name in names if name in os.environ}
            programs = stack.enter_context(loopback(tmp_path / "sshd", env={**env, "KNOWNGOOD_STATE": str(lab.state)}))
            monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
            file = lab.root / "knowngood.toml"
            file.write_text(FAR.format(host=host) + file.read_text())

        yield move


@pytest.fixture(params=["here", "over ssh"])
def anywhere(lab: RealLab, request: pytest.FixtureRequest) -> RealLab:
    """A lab whose host is this machine, and one whose host is reached over ssh."""
    if request.param == "over ssh":
        request.getfixturevalue("move_away")(lab)
    return lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[RealLab]:
    made = RealLab(tmp_path)
    yield made
    made.end()


@pytest.fixture
def measured(lab: RealLab) -> RealLab:
    """A lab that has its baseline."""
    done = lab.run("baseline", "--json")
    assert done.status == 0, done
    return lab
