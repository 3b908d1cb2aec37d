"""The engine against the real server, out of the xllamacpp wheel."""

import hashlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowngood.demo.experiments import EXPERIMENTS
from knowngood.demo.lab import LOOKUP, write_lab
from knowngood.demo.model import fetch_model, wrong_vocabulary_draft
from knowngood.engines.llamacpp import LlamaCpp
from knowngood.engines.llamacpp.flags import GROUPS
from knowngood.errors import HostError
from knowngood.model.change import Change, File, Flag
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Inside, Observed
from knowngood.reason.blame import blame
from knowngood.reason.diagnose import diagnose

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
pytest.importorskip("xllamacpp")

MODULE = "knowngood.engines.llama_server"
ROWS = "[1, 2, 3, 4],\n" * 12
READY_S = 120


@pytest.fixture(scope="module")
def model() -> Path:
    try:
        return fetch_model()
    except HostError as error:
        pytest.skip(error.message)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, path: str, body: object = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        text = None if body is None else json.dumps(body)
        connection.request("GET" if text is None else "POST", path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


class Running:
    """A llama-server that was started as the engine says."""

    def __init__(self, process: "subprocess.Popen[bytes]", argv: tuple[str, ...], port: int, log: Path) -> None:
        self.process, self.argv, self.port, self.log = process, argv, port, log

    def complete(self, prompt: str, tokens: int) -> str:
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0}
        status, text = ask(self.port, "/v1/completions", body)
        assert status == 200, text
        return str(json.loads(text)["choices"][0]["text"])

    def prove(self, change: Change, files: dict[str, str] | None = None) -> tuple[bool | None, str]:
        pages = {page: ask(self.port, page) for page in LlamaCpp().pages}
        observed = Observed(
            inside=Inside(argv=self.argv, environ={}, pids=(self.process.pid,), ports=(self.port,), rss_mb=0),
            pages={page: text for page, (status, text) in pages.items() if status == 200},
            log=self.log.read_text(),
            files=files or {},
        )
        proof = LlamaCpp().prove(change, observed)
        return proof.holds, proof.evidence


def start(words: tuple[str, ...], log: Path) -> Running:
    port = free_port()
    spec = LaunchSpec(argv=("llama-server", *words, "--port", str(port)), port=port)
    argv = LlamaCpp().resolve(spec, which=shutil.which).argv
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent)
    return Running(process, argv, port, log)


@contextmanager
def serving(*words: str, log: Path) -> Generator[Running]:
    """A server that is ready; ended when left."""
    server = start((*words, "-c", "1024"), log)
    try:
        until = time.monotonic() + READY_S
        while ask(server.port, "/health")[0] != 200:
            assert server.process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def failing(*words: str, log: Path) -> Diagnosis:
    """What the log of a launch that fails says."""
    server = start(words, log)
    try:
        assert server.process.wait(timeout=READY_S) == 1, log.read_text()
    finally:
        server.process.kill()
    return diagnose([log.read_bytes()], LlamaCpp().rules)


def test_it_serves_and_ends_when_asked(model: Path, tmp_path: Path) -> None:
    with serving("-m", str(model), "-np", "2", "-t", "2", "--alias", "smol", log=tmp_path / "log") as server:
        assert "Paris" in server.complete("The capital of France is", 4)
        for flag, value in (("--parallel", "2"), ("--ctx-size", "1024"), ("-a", "smol"), ("--threads", "2")):
            assert server.prove(Flag(flag=flag, value=value))[0] is True
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=10) == 0
        assert ask(server.port, "/health")[0] == 0


def test_speculation_is_seen_at_work(model: Path, tmp_path: Path) -> None:
    with serving("-m", str(model), "-np", "1", "--spec-type", "ngram-simple", log=tmp_path / "log") as server:
        server.complete(ROWS, 48)
        holds, evidence = server.prove(Flag(flag="--spec-type", value="ngram-simple"))
    assert holds is True
    assert "speculative: true" in evidence
    assert " 0 tokens drafted" not in evidence


def test_a_draft_of_another_vocabulary_is_ready_and_found_out(model: Path, tmp_path: Path) -> None:
    draft = str(wrong_vocabulary_draft(model))
    words = ("-m", str(model), "-np", "1", "--spec-type", "draft-simple", "-md", draft)
    with serving(*words, log=tmp_path / "log") as server:
        assert server.complete("1 2 3", 2)
        holds, evidence = server.prove(Flag(flag="--model-draft", value=draft))
        assert server.prove(Flag(flag="--spec-type", value="draft-simple"))[0] is False
    assert holds is False
    assert "vocabs are not compatible" in evidence


def test_a_lookup_cache_is_read(model: Path, tmp_path: Path) -> None:
    write_lab(tmp_path / "lab", model=model, draft=model)
    cache = tmp_path / "lab" / "experiments" / LOOKUP
    words = ("-m", str(model), "-np", "1", "--spec-type", "ngram-cache", "-lcs", str(cache))
    with serving(*words, log=tmp_path / "log") as server:
        server.complete(ROWS, 16)
        change = File(path=str(cache), content=cache.read_bytes())
        files = {str(cache): hashlib.sha256(change.content).hexdigest()}
        assert server.prove(change, files)[0] is True


def test_a_quantised_v_cache_without_flash_attention_is_a_dead_end(model: Path, tmp_path: Path) -> None:
    found = failing("-m", str(model), "-c", "512", "-ctv", "q8_0", "-fa", "off", log=tmp_path / "log")
    changes = (Flag(flag="--cache-type-v", value="q8_0"), Flag(flag="--flash-attn", value="off"))
    blamed = blame(found, changes, aliases=LlamaCpp().aliases)
    assert (blamed.cause, blamed.hard) == ("incompatible_features", True)
    assert blamed.member == "flag --cache-type-v q8_0 and flag --flash-attn off"


def test_a_model_that_is_missing_or_cut_off_is_told(model: Path, tmp_path: Path) -> None:
    assert failing("-m", "nope.gguf", log=tmp_path / "log").cause == "model_files"
    broken = tmp_path / "broken.gguf"
    with model.open("rb") as source:
        broken.write_bytes(source.read(40_000_000))
    found = failing("-m", str(broken), log=tmp_path / "log")
    assert (found.cause, "within the file bounds" in found.line) == ("model_files", True)


def test_a_taken_port_is_told(model: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = ("-m", str(model), "--port", str(taken.getsockname()[1]))
        argv = [sys.executable, "-m", MODULE, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=READY_S, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert diagnose([done.stderr.encode()], LlamaCpp().rules).cause == "network_port_or_interface"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--enable-turbo",), "error: invalid argument: --enable-turbo"),
        (("-ctk", "q3_z"), 'error while handling argument "-ctk": Unsupported cache type: q3_z'),
        (("-fa", "maybe"), "unknown value for --flash-attn: 'maybe'"),
        (("-c",), "expected value for argument"),
    ],
)
def test_flags_are_refused_as_llama_server_does(words: tuple[str, ...], said: str) -> None:
    argv = [sys.executable, "-m", MODULE, "-m", "m.gguf", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert diagnose([done.stderr.encode()], LlamaCpp().rules).cause == "bad_flag_or_env"


def test_every_spelling_is_one_of_llama_servers() -> None:
    argv = [sys.executable, "-m", MODULE, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    known = {word.strip(",") for line in done.stdout.splitlines() if line.startswith("-") for word in line.split()}
    assert {name for group in GROUPS for name in group} <= known
    asked = {member for each in EXPERIMENTS for member in each.text.split('"') if member.startswith("--")}
    assert asked <= known
