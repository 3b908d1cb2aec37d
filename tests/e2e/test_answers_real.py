"""The answers guard against llama.cpp's real server: rounding is excused, a model that is run wrongly is not."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowngood.loads.answers import Endpoint, Server, ask, compare, score
from knowngood.model.evidence import AnswerCheck
from knowngood.reason.answers import PROMPTS, Answer, check, passes

MODEL = os.environ.get("KNOWNGOOD_TEST_MODEL", "")
SOME = PROMPTS[::2]
N_TOKENS = 24
STARTS_WITHIN_S = 120

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not MODEL, reason="KNOWNGOOD_TEST_MODEL names no GGUF file"),
]
both = pytest.mark.parametrize("endpoint", ["llamacpp", "openai"])


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:  # noqa: S310 - loopback
            return bool(response.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False


@contextmanager
def running(log: Path, *flags: str) -> Generator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    program = [sys.executable, "-m", "knowngood.engines.llama_server"]
    shape = ["-m", MODEL, "--host", "127.0.0.1", "--port", str(port), "-t", "1", "-tb", "1", "-np", "1", "-c", "1024"]
    with log.open("wb") as out, subprocess.Popen([*program, *shape, *flags], stdout=out, stderr=out) as process:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + STARTS_WITHIN_S
        try:
            while not is_healthy(url):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("baseline") / "server.log") as url:
        yield url


@pytest.fixture(scope="module")
def mine(baseline: str) -> tuple[Answer, ...]:
    return ask(Server(url=baseline, endpoint="llamacpp"), SOME, n_tokens=N_TOKENS)


def check_candidate(baseline: str, mine: tuple[Answer, ...], log: Path, endpoint: Endpoint, *flags: str) -> AnswerCheck:
    with running(log, *flags) as url:
        theirs = ask(Server(url=url, endpoint=endpoint), SOME, n_tokens=N_TOKENS)
    judge = Server(url=baseline, endpoint=endpoint)
    return check([compare(judge, a, b) for a, b in zip(mine, theirs, strict=True)])


@both
def test_a_relaunch_answers_the_same(
    baseline: str, mine: tuple[Answer, ...], tmp_path: Path, endpoint: Endpoint
) -> None:
    found = check_candidate(baseline, mine, tmp_path / "log", endpoint)
    assert found.same == len(SOME)


@both
def test_a_quantised_kv_cache_changes_texts_at_near_ties_only(
    baseline: str, mine: tuple[Answer, ...], tmp_path: Path, endpoint: Endpoint
) -> None:
    found = check_candidate(baseline, mine, tmp_path / "log", endpoint, "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0")
    assert found.near_ties > 0
    assert found.wrong == found.unjudged == 0
    assert passes(found, "equivalent")[0]
    assert not passes(found, "same")[0]


@both
def test_wrong_positions_are_wrong_answers(
    baseline: str, mine: tuple[Answer, ...], tmp_path: Path, endpoint: Endpoint
) -> None:
    found = check_candidate(baseline, mine, tmp_path / "log", endpoint, "--rope-freq-scale", "0.5")
    assert found.wrong > 0
    good, why = passes(found, "equivalent")
    assert not good
    assert "wrong" in why


@both
def test_the_baselines_own_tokens_are_its_likeliest(
    baseline: str, mine: tuple[Answer, ...], endpoint: Endpoint
) -> None:
    for answer in mine:
        likely = score(Server(url=baseline, endpoint=endpoint), answer.prompt, "")
        assert len(likely) > 1
        assert answer.text.startswith(likely[0].piece)
