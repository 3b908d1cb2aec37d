"""Compares benchmark clients against one server on an exact schedule: whose numbers are true, who is fast.

    python benchmarks/loadgen.py --tokenizer DIR --peer aiperf=PATH --peer inference-perf=PATH --peer llama-benchy=PATH

Peers are found by ``--peer NAME=PATH`` or on PATH; those that are not found are named and left out. Accuracy: 50
streams, tokens every 10 ms, calm and with every 20th gap 60 ms; what a client reports is held against the server's own
stamps. Rate: client and server on one core each, answers in one burst; the most requests and events that the server saw
in a second.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from knowngood.loads.client import Client
from knowngood.loads.peers import PEERS
from knowngood.loads.peers.peer import Job
from knowngood.loads.words import Draw, ask
from knowngood.model.workload import Lengths, Workload
from knowngood.ports import Target
from knowngood.testing.sse_server import serving

NAMES = ("ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms")
CALM = ("--ttft-ms", "50", "--itl-ms", "10", "--realtime")
STALLS = (*CALM, "--stall-every", "20", "--stall-ms", "60")
BURST = ("--ttft-ms", "0", "--itl-ms", "0", "--burst", "1000000")
WINDOW_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One pass: streams, requests, tokens out; where the server is, where results go, where the tokenizer is."""

    url: str
    streams: int
    requests: int
    tokens: int
    scratch: Path
    tokenizer: str
    book: str


Reported = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One benchmark client: how it is started, how its percentiles are read (milliseconds; without those it lacks)."""

    name: str
    argv: Callable[[str, Ask], list[str]]
    read: Callable[[Ask], Reported]
    env: Callable[[str], Mapping[str, str]] = lambda _tokenizer: {"HF_HUB_OFFLINE": "1"}
    is_ours: bool = False


def own_argv(_program: str, what: Ask) -> list[str]:
    out = what.scratch / "own.json"
    numbers = [str(number) for number in (what.streams, what.requests, what.tokens)]
    return [sys.executable, __file__, "--pass", what.url, *numbers, str(out)]


def own_argv_ordinary(program: str, what: Ask) -> list[str]:
    """Take the right to real-time scheduling away."""
    return ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", *own_argv(program, what)]


def own_read(what: Ask) -> Reported:
    metrics: Reported = json.loads((what.scratch / "own.json").read_text())
    return metrics


def own_pass(url: str, streams: str, requests: str, tokens: str, out: str) -> None:
    """Run one pass of our client, in a process of its own like any peer."""
    workload = Workload(
        concurrency=int(streams), requests=int(requests), osl=Lengths(mean=int(tokens)), isl=Lengths(mean=64)
    )
    run = Client().measure(
        Target(url=url, alive=lambda: True, log=Path(os.devnull)),
        workload,
        out=Path(out).with_suffix(".jsonl.gz"),
        progress=lambda _share: None,
        mark=lambda: None,
    )
    Path(out).write_text(json.dumps({**run.metrics, "errors": run.errors}))


def inference_perf_argv(program: str, what: Ask) -> list[str]:
    def fixed(tokens: int) -> dict[str, object]:
        return {"type": "fixed", "mean": tokens, "min": tokens, "max": tokens, "total_count": what.requests}

    stage = {"num_requests": what.requests, "concurrency_level": what.streams}
    config = {
        "api": {"type": "completion", "streaming": True},
        "server": {"type": "vllm", "model_name": "mock", "base_url": what.url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": what.tokenizer},
        "data": {"type": "random", "input_distribution": fixed(64), "output_distribution": fixed(what.tokens)},
        "load": {"type": "concurrent", "num_workers": 1, "stages": [stage]},
        "report": {"request_lifecycle": {"summary": True}},
        "storage": {"local_storage": {"path": str(what.scratch / "inference-perf")}},
    }
    path = what.scratch / "inference-perf.yml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return [program, "-c", str(path)]


def inference_perf_read(what: Ask) -> Reported:
    path = what.scratch / "inference-perf" / "summary_lifecycle_metrics.json"
    latency: dict[str, dict[str, float]] = json.loads(path.read_text())["successes"]["latency"]
    return {
        f"{name}_{quantile}_ms": latency[key]["median" if quantile == "p50" else quantile] * 1000
        for name, key in (("ttft", "time_to_first_token"), ("itl", "inter_token_latency"))
        for quantile in ("p50", "p99")
    }


def lab_tool(name: str) -> Tool:
    """Make a tool of a client that the product itself can run."""
    peer = PEERS[name]

    def job(what: Ask) -> Job:
        folder = what.scratch / name
        folder.mkdir(exist_ok=True)
        load = Workload(
            concurrency=what.streams,
            requests=what.requests,
            isl=Lengths(mean=64),
            osl=Lengths(mean=what.tokens),
            warmup=0,
        )
        return Job(url=what.url, model="mock", tokenizer=what.tokenizer, workload=load, seed=0, folder=folder)

    return Tool(
        name=name,
        argv=lambda program, what: [program, *peer.argv(job(what))],
        read=lambda what: peer.read(job(what)).metrics,
        env=peer.env,
    )


def benchy_argv(program: str, what: Ask) -> list[str]:
    target = ["--base-url", f"{what.url}/v1", "--model", "mock", "--tokenizer", what.tokenizer]
    rounds = max(1, what.requests // what.streams)
    load = ["--pp", "64", "--tg", str(what.tokens), "--runs", str(rounds), "--concurrency", str(what.streams)]
    return [program, *target, *load, "--book-url", what.book, "--no-cache", "--exact-tg", "--skip-coherence"]


def no_percentiles(_what: Ask) -> Reported:
    return {}


OURS = (
    Tool(name="knowngood", argv=own_argv, read=own_read, is_ours=True),
    Tool(name="knowngood, not real-time", argv=own_argv_ordinary, read=own_read, is_ours=True),
)
OTHERS = (
    lab_tool("vllm"),
    Tool(name="inference-perf", argv=inference_perf_argv, read=inference_perf_read),
    lab_tool("guidellm"),
    lab_tool("aiperf"),
    Tool(name="llama-benchy", argv=benchy_argv, read=no_percentiles),
)


def spread(ttfts: Sequence[float], gaps: Sequence[float]) -> Reported:
    points = [np.percentile(values, quantile) for values in (ttfts, gaps) for quantile in (50, 99)]
    return dict(zip(NAMES, map(float, points), strict=True))


def stamps(url: str) -> list[tuple[int, list[int]]]:
    """Take the server's stamps: when each request was received, when each of its tokens left (nanoseconds)."""
    with urllib.request.urlopen(f"{url}/stamps", timeout=60) as response:  # noqa: S310 - our own server
        return [(row["received"], row["sent"]) for row in json.load(response) if row["sent"]]


def truth(taken: Sequence[tuple[int, list[int]]]) -> Reported:
    ttfts = [(sent[0] - received) / 1e6 for received, sent in taken]
    return spread(ttfts, [(b - a) / 1e6 for _, sent in taken for a, b in pairwise(sent)])


def peak(times_ns: Sequence[int]) -> float:
    """Most events in any window of ``WINDOW_S``, per second."""
    times = np.sort(np.asarray(times_ns, dtype=np.int64))
    counts = np.searchsorted(times, times + int(WINDOW_S * 1e9)) - np.arange(len(times))
    return float(counts.max()) / WINDOW_S if len(times) else 0.0


@contextlib.contextmanager
def book() -> Generator[str]:
    """Serve a text over HTTP, because llama-benchy insists on fetching its prompts."""
    text = ask(0, isl=Draw(60_000, 0, 1, 0), osl=Draw(1, 0, 1, 0), seed=0).prompt.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/b.txt"
        server.shutdown()


def start(tool: Tool, program: str, what: Ask, *, core: int | None) -> str:
    """Run one tool to its end; return why it failed, empty if it did not."""
    argv = tool.argv(program, what)
    if core is not None:
        argv = ["taskset", "-c", str(core), *argv]
    env = {**os.environ, **tool.env(what.tokenizer)}
    with (what.scratch / "log").open("wb") as log:
        try:
            done = subprocess.run(
                argv, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=what.scratch, timeout=180, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    said = (what.scratch / "log").read_text(errors="replace").strip().rpartition("\n")[2]
    return f"exit {done.returncode}: {said}" if done.returncode else ""


def measure(
    tool: Tool, program: str, server: Sequence[str], what: dict[str, Any], *, cores: tuple[int, int] | None
) -> tuple[Reported, list[tuple[int, list[int]]]]:
    """Run one tool against a fresh server; return what it reported and the server's stamps, both empty on failure."""
    with tempfile.TemporaryDirectory() as scratch, serving(*server) as url, book() as text:
        asked = Ask(url=url, scratch=Path(scratch), book=text, **what)
        if cores is not None:
            pin(cores[0])
        why = start(tool, program, asked, core=None if cores is None else cores[1])
        if why:
            print(f"!! {tool.name} failed: {why}", file=sys.stderr)
            return {}, []
        return tool.read(asked), stamps(url)


def pin(core: int) -> None:
    """Keep the server, our only child, on one core."""
    for child in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split():
        os.sched_setaffinity(int(child), {core})


def accuracy(tools: Sequence[tuple[Tool, str]], tokenizer: str) -> None:
    what = {"streams": 50, "requests": 150, "tokens": 61, "tokenizer": tokenizer}
    for title, server in (("calm: every gap 10 ms", CALM), ("stalls: every 20th gap 60 ms", STALLS)):
        print(f"\n{title}; reported (difference from the server's stamps), ms\n")
        print("| client | TTFT p50 | TTFT p99 | ITL p50 | ITL p99 |\n| --- | --- | --- | --- | --- |")
        for tool, program in tools:
            reported, taken = measure(tool, program, server, what, cores=None)
            if not taken:
                continue
            true = truth(taken)
            cells = [
                f"{reported[name]:.2f} ({reported[name] - true[name]:+.2f})" if name in reported else "-"
                for name in NAMES
            ]
            print(f"| {tool.name} | {' | '.join(cells)} |", flush=True)


def rates(tools: Sequence[tuple[Tool, str]], tokenizer: str) -> None:
    available = sorted(os.sched_getaffinity(0))
    cores = (available[0], available[-1])
    few = {"streams": 16, "tokens": 4, "tokenizer": tokenizer}
    many = {"streams": 4, "tokens": 500, "tokenizer": tokenizer}
    print("\nmost per second, client on one core, as the server saw it\n")
    print("| client | requests/s (16 streams, 4 events each) | events/s (4 streams, 500 events each) |")
    print("| --- | --- | --- |")
    for tool, program in tools:
        if tool.name.endswith("real-time"):
            continue
        count = 12_000 if tool.is_ours else 800
        _, taken = measure(tool, program, BURST, {**few, "requests": count}, cores=cores)
        requests = peak([received for received, _ in taken])
        _, taken = measure(tool, program, BURST, {**many, "requests": 600 if tool.is_ours else 200}, cores=cores)
        events = peak([at for _, sent in taken for at in sent])
        print(f"| {tool.name} | {requests:,.0f} | {events:,.0f} |", flush=True)


def find(given: Sequence[str]) -> list[tuple[Tool, str]]:
    paths = dict(cast("tuple[str, str]", tuple(one.split("=", 1))) for one in given)
    found = [(tool, sys.executable) for tool in OURS]
    for tool in OTHERS:
        program = paths.get(tool.name) or shutil.which(tool.name)
        if program:
            found.append((tool, program))
        else:
            print(f"!! {tool.name} is left out: not on PATH and no --peer {tool.name}=PATH", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--tokenizer", default="", help="directory of a Hugging Face tokenizer, for the peers")
    parser.add_argument("--pass", nargs=5, dest="own", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.own:
        own_pass(*options.own)
        return
    tools = find(options.peer)
    if not options.tokenizer and len(tools) > len(OURS):
        print("!! all peers are left out: they need --tokenizer DIR", file=sys.stderr)
        tools = tools[: len(OURS)]
    accuracy(tools, options.tokenizer)
    rates(tools, options.tokenizer)


if __name__ == "__main__":
    main()
