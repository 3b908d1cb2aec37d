"""The client as it runs: its own process, real sockets, servers that behave and servers that do not."""

import contextlib
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from knowngood.errors import LoadError
from knowngood.loads.client import Client
from knowngood.loads.samples import read_samples
from knowngood.model.evidence import RunRecord
from knowngood.model.workload import Lengths, Slo, Workload
from knowngood.ports import Target
from knowngood.testing.sse_server import serving

MODEL = os.environ.get("KNOWNGOOD_TEST_MODEL", "")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"index":0,"text":"x","finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"text":"x","finish_reason":"length"}]}\n\ndata: [DONE]\n\n'
SHORT = Lengths(mean=6)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


WHOLE = HEAD + chunk(TOKEN) + chunk(LAST) + b"0\r\n\r\n"


@dataclass
class Pass:
    """What a caller saw of a pass."""

    out: Path
    progress: list[float] = field(default_factory=list[float])
    marks: list[float] = field(default_factory=list[float])

    def run(self, url: str, workload: Workload, *, alive: Callable[[], bool] = lambda: True) -> RunRecord:
        target = Target(url=url, alive=alive, log=Path("server.log"))
        return Client().measure(
            target,
            workload,
            out=self.out,
            progress=self.progress.append,
            mark=lambda: self.marks.append(time.monotonic()),
        )


@pytest.fixture(name="run")
def make_pass(tmp_path: Path) -> Pass:
    return Pass(tmp_path / "samples.jsonl.gz")


Ending = Callable[[socket.socket], None]


def close(connection: socket.socket) -> None:
    connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def keep(connection: socket.socket) -> None:
    """Leave it open."""


@contextmanager
def canned(answer: bytes, ending: Ending = close, *, answers: int = 1) -> Generator[str]:
    """Serve the same bytes to each of the first ``answers`` requests of a connection, then end it."""
    open_ones: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for _ in range(answers):
                data = b""
                while b"\r\n\r\n" not in data or (data.startswith(b"POST") and not data.endswith(b"}")):
                    got = connection.recv(65536)
                    if not got:
                        return
                    data += got
                connection.sendall(answer)
            ending(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_ones.append(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in open_ones:
                connection.close()


def test_a_closed_loop_measures_exactly_what_was_asked(run: Pass) -> None:
    with serving("--ttft-ms", "5", "--itl-ms", "2") as url:
        record = run.run(url, Workload(concurrency=3, requests=7, osl=SHORT, slo=Slo(e2e_ms=60_000)))
    assert (record.requests, record.errors, record.error_kinds) == (7, 0, {})
    assert record.metrics["error_rate"] == 0
    assert record.metrics["goodput_s"] == pytest.approx(record.metrics["request_s"])
    assert record.metrics["ttft_p50_ms"] >= 4.5
    assert record.metrics["client_priority"] in {0, 1, 2}
    samples = read_samples(run.out)
    assert samples.is_whole
    measured = [one for one in samples.requests if one.phase == "measured"]
    assert sorted(one.index for one in measured) == list(range(7))
    assert all((one.tokens, len(one.gaps_us)) == (6, 5) for one in measured)
    assert sum(one.phase == "warmup" for one in samples.requests) == 3
    assert samples.window is not None
    assert samples.window.end_us == max(one.sent_us + one.e2e_us for one in measured)
    assert run.progress[-1] == 1
    assert len(run.marks) == 2


def test_the_load_is_kept_up_until_the_last_measured_request_has_finished(run: Pass) -> None:
    with serving("--ttft-ms", "5", "--itl-ms", "5") as url:
        run.run(url, Workload(concurrency=4, requests=6, osl=Lengths(mean=10, sd=6), isl=SHORT))
    samples = read_samples(run.out)
    assert samples.window is not None
    for start in range(samples.window.start_us, samples.window.end_us, 3000):
        flying = sum(one.sent_us <= start < one.sent_us + one.e2e_us for one in samples.requests)
        turning = sum(one.scheduled_us <= start < one.sent_us for one in samples.requests)
        assert flying + turning >= 4


def test_a_window_by_time_has_its_length_and_whole_requests(run: Pass) -> None:
    with serving("--ttft-ms", "5", "--itl-ms", "2") as url:
        record = run.run(url, Workload(concurrency=2, duration_s=0.5, osl=SHORT))
    assert record.seconds == 0.5
    assert record.requests == sum(one.phase == "measured" for one in read_samples(run.out).requests)
    assert record.errors == 0


def test_an_open_loop_sends_on_its_schedule_and_counts_from_it(run: Pass) -> None:
    with serving("--ttft-ms", "5", "--itl-ms", "1") as url:
        record = run.run(url, Workload(rate=40.0, arrivals="constant", requests=20, osl=SHORT, endpoint="chat"))
    measured = sorted((o for o in read_samples(run.out).requests if o.phase == "measured"), key=lambda one: one.index)
    gaps = [b.scheduled_us - a.scheduled_us for a, b in pairwise(measured)]
    assert all(abs(gap - 25_000) <= 1 for gap in gaps)
    assert all(one.sent_us >= one.scheduled_us for one in measured)
    assert record.metrics["ttft_mean_ms"] >= record.metrics["ttft_sent_mean_ms"]
    assert record.metrics["achieved_rate"] > 0


def test_both_arms_get_the_same_prompts_and_times(tmp_path: Path) -> None:
    shapes: list[list[tuple[int, int | None, int | None]]] = []
    with serving("--ttft-ms", "1", "--itl-ms", "1") as url:
        for arm in ("a", "b"):
            one = Pass(tmp_path / arm)
            one.run(url, Workload(concurrency=2, requests=6, osl=Lengths(mean=9, sd=4), isl=Lengths(mean=30, sd=9)))
            rows = [row for row in read_samples(one.out).requests if row.phase == "measured"]
            shapes.append(sorted((row.index, row.prompt_tokens, row.tokens) for row in rows))
    assert shapes[0] == shapes[1]
    assert len(set(shapes[0])) == 6


def test_events_of_several_tokens_count_by_usage(run: Pass) -> None:
    with serving("--ttft-ms", "1", "--itl-ms", "1", "--pack", "4") as url:
        record = run.run(url, Workload(concurrency=1, requests=3, osl=Lengths(mean=8)))
    measured = [one for one in read_samples(run.out).requests if one.phase == "measured"]
    assert {(one.tokens, len(one.gaps_us)) for one in measured} == {(8, 1)}
    assert record.metrics["output_tokens"] == pytest.approx(24)


def test_connections_are_reused_and_those_closed_while_idle_are_no_error(run: Pass) -> None:
    # Each connection answers one request for the model list or two completions, then closes at its own time.
    with canned(WHOLE, answers=2) as url:
        record = run.run(url, Workload(concurrency=2, requests=9, model="m"))
    assert (record.requests, record.errors) == (9, 0)


@pytest.mark.parametrize(
    ("answer", "ending", "kind"),
    [
        (b"HTTP/1.1 500 X\r\nContent-Length: 4\r\n\r\noops", close, "http_500"),
        (b"HTTP/1.1 429 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nslow\r\n0\r\n\r\n", keep, "http_429"),
        (HEAD + chunk(b'data: {"error":{"message":"no memory"}}\n\n'), keep, "server_error"),
        (HEAD + chunk(TOKEN), close, "truncated"),
        (HEAD + chunk(TOKEN) + b"0\r\n\r\n", keep, "truncated"),
        (b"", close, "closed"),
        (b"", reset, "reset"),
        (HEAD + chunk(TOKEN), reset, "reset"),
        (HEAD + chunk(TOKEN), keep, "timeout"),
        (b"", keep, "timeout"),
        (b"SMTP ready\r\n", keep, "malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", keep, "no_stream"),
        (HEAD + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n", keep, "empty"),
    ],
)
def test_every_failure_is_counted_by_kind_and_nothing_hangs(
    run: Pass, answer: bytes, ending: Ending, kind: str
) -> None:
    with canned(answer, ending) as url:
        record = run.run(url, Workload(concurrency=2, requests=3, timeout_s=0.3, model="m"))
    assert (record.requests, record.errors, record.error_kinds) == (3, 3, {kind: 3})
    assert record.metrics["error_rate"] == 1
    assert "ttft_p50_ms" not in record.metrics


def test_a_server_that_is_not_there_is_an_error_of_the_pass(run: Pass) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(LoadError, match=f"cannot connect to 127.0.0.1:{port}"):
        run.run(f"http://127.0.0.1:{port}", Workload(concurrency=1, requests=1))


def test_a_server_without_a_model_list_is_asked_without_a_model(run: Pass) -> None:
    with canned(WHOLE, answers=1000) as url:
        assert run.run(url, Workload(concurrency=1, requests=2)).errors == 0


def test_a_request_that_cannot_be_sent_again_either_is_one_error(run: Pass) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer_once_and_go() -> None:
        connection, _ = listener.accept()
        while not connection.recv(65536):  # the client first looks whether anybody is there
            connection.close()
            connection, _ = listener.accept()
        with connection:
            connection.sendall(WHOLE)
            connection.recv(65536)
            listener.close()  # before the connection, so that there is nobody to send the second request to again

    server = threading.Thread(target=answer_once_and_go)
    server.start()
    record = run.run(f"http://127.0.0.1:{listener.getsockname()[1]}", Workload(concurrency=1, requests=3, model="m"))
    server.join()
    assert (record.requests, record.errors) == (3, 3)


def test_a_server_that_dies_under_load_is_named_and_its_samples_are_kept(run: Pass) -> None:
    argv = [sys.executable, "-m", "knowngood.testing.sse_server", "--ttft-ms", "1", "--itl-ms", "1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        killer = threading.Timer(1.0, server.kill)
        killer.start()
        with pytest.raises(LoadError, match=r"the server at .* died") as failure:
            run.run(url, Workload(concurrency=2, duration_s=60, osl=SHORT), alive=lambda: server.poll() is None)
        killer.join()
    assert failure.value.hint == "its log says why: server.log"
    samples = read_samples(run.out)
    assert samples.is_whole
    assert samples.window is None
    assert any(not one.error for one in samples.requests)


@contextmanager
def small_files() -> Generator[None]:
    """Let no file of this process and its children grow beyond 24 KiB, which takes the client some flushes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (24576, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_and_what_was_flushed_stays_readable(run: Pass) -> None:
    workload = Workload(concurrency=4, duration_s=60, osl=Lengths(mean=40))
    full = pytest.raises(LoadError, match=r"cannot write the samples to .*: File too large")
    with serving("--ttft-ms", "1", "--itl-ms", "1") as url, small_files(), full:
        run.run(url, workload)
    samples = read_samples(run.out)
    assert not samples.is_whole
    assert samples.requests


def test_a_place_that_cannot_be_written_is_told(run: Pass) -> None:
    run.out = Path("/dev/full")
    with serving() as url, pytest.raises(LoadError, match="/dev/full: No space left on device"):
        run.run(url, Workload(concurrency=1, requests=1))


@pytest.mark.e2e
@pytest.mark.skipif(not MODEL, reason="KNOWNGOOD_TEST_MODEL names no GGUF file")
@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_llama_cpp_is_measured_token_by_token(run: Pass, endpoint: Literal["completions", "chat"]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ["-m", MODEL, "--host", "127.0.0.1", "--port", str(port), "-t", "1", "-np", "2", "-c", "1024"]
    argv = [sys.executable, "-m", "knowngood.engines.llama_server", *flags]
    workload = Workload(endpoint=endpoint, concurrency=2, requests=4, isl=Lengths(mean=32), osl=Lengths(mean=12))
    with run.out.with_name("server.log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as server:
        try:
            wait_healthy(f"http://127.0.0.1:{port}", server)
            record = run.run(f"http://127.0.0.1:{port}", workload, alive=lambda: server.poll() is None)
        finally:
            server.terminate()
    assert (record.requests, record.errors) == (4, 0)
    measured = [one for one in read_samples(run.out).requests if one.phase == "measured"]
    assert {one.tokens for one in measured} == {12}
    # Words are tokens, give or take what a chat template and a begin-of-text token add.
    assert all(one.prompt_tokens is not None and 32 <= one.prompt_tokens <= 80 for one in measured)
    assert record.metrics["output_tok_s"] > 0
    assert record.metrics["itl_p50_ms"] > 0


def wait_healthy(url: str, server: "subprocess.Popen[bytes]", *, within_s: float = 120) -> None:
    until = time.monotonic() + within_s
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310 - loopback
            return
        time.sleep(0.1)
    pytest.fail("llama-server did not become healthy")


def test_an_interrupted_caller_leaves_no_generator_behind(run: Pass) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    with serving("--ttft-ms", "1") as url:
        before = children.read_text()

        def interrupt() -> bool:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run.run(url, Workload(concurrency=1, duration_s=60), alive=interrupt)
        assert children.read_text() == before
