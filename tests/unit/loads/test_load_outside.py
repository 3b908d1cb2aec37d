"""Clients of others as the load: a process of its own, its result read, its failures told, nothing of it left."""

import os
import stat
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from knowngood.app.tools import open_load
from knowngood.config.lab import LabConfig, LoadTable, load_lab
from knowngood.errors import KnowngoodError, LoadError, UsageError
from knowngood.hosts.local import LocalHost
from knowngood.loads.metrics import NoMetrics, llama_bench
from knowngood.loads.outside import AnyProgram, open_outside
from knowngood.loads.peers import PEERS
from knowngood.model.evidence import RunRecord
from knowngood.model.workload import Lengths, Slo, Workload
from knowngood.ports import Target
from knowngood.testing.sse_server import serving

LOAD = Workload(concurrency=2, requests=6, isl=Lengths(mean=8), osl=Lengths(mean=4), model="mock")


def always() -> bool:
    return True


class Bench:
    """A folder with a client in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "samples"
        self.marks = 0

    def script(self, body: str, name: str = "client") -> str:
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\nimport json, os, subprocess, sys, time\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def mark(self) -> None:
        self.marks += 1

    def measure(
        self,
        load: LoadTable,
        workload: Workload = LOAD,
        *,
        url: str = "http://127.0.0.1:9",
        alive: Callable[[], bool] = always,
        number: int = 0,
    ) -> RunRecord:
        target = Target(url=url, alive=alive, log=self.folder / "server.log")
        return open_outside(load, is_here=True).measure(
            target, workload, out=self.out, progress=lambda _: None, mark=self.mark, number=number
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


TELL = 'print("warming up"); print(json.dumps({"tok_s": 12.5, "requests": 7, "argv": sys.argv[1:], "n": {"p50": 3}}))'


def test_any_program_is_told_the_workload_and_tells_its_metrics(bench: Bench) -> None:
    words = ("{url}/v1", "{model}", "c={concurrency}", "n={requests}", "{isl}/{osl}", "{seed}", '{"a": 1}')
    load = LoadTable(client="command", program=(bench.script(TELL), *words), args=("--last",))
    run = bench.measure(load, number=2)
    assert run.metrics["tok_s"] == 12.5
    assert run.metrics["n.p50"] == 3
    assert run.metrics["client_cpu_s"] > 0
    assert (run.requests, run.errors, run.client, bench.marks) == (7, 0, "command", 2)
    with tarfile.open(bench.out) as archive:
        said = archive.extractfile("command/client.log")
        assert said is not None
        log = said.read().decode()
    assert '["http://127.0.0.1:9/v1", "mock", "c=2", "n=6", "8/4", "2", "{\\"a\\": 1}", "--last"]' in log


def test_any_program_may_write_its_metrics_to_a_file(bench: Bench) -> None:
    body = 'open(sys.argv[1], "w").write(json.dumps({"tok_s": 3, "errors": 1}, indent=1)); print({"tok_s": 4})'
    run = bench.measure(LoadTable(client="command", program=(bench.script(body), "{out}")))
    assert (run.metrics["tok_s"], run.errors, run.error_kinds) == (3, 1, {"failed": 1})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('print("no model"); sys.exit(3)', "command ended with status 3: no model"),
        ('print("done")', "there is no JSON object in client.log: done"),
        ('print("{}")', "there is no number in client.log"),
        ("time.sleep(60)", "command did not end within 1 s; it said last: nothing"),
        ("os.kill(os.getpid(), 9)", "command ended with status -9: nothing"),
    ],
)
def test_a_client_that_fails_is_told_with_its_own_words(bench: Bench, body: str, says: str) -> None:
    with pytest.raises(LoadError) as caught:
        bench.measure(LoadTable(client="command", program=(bench.script(body),), timeout="1s"))
    assert says in caught.value.message
    assert tarfile.is_tarfile(bench.out), "what it wrote is kept all the same"


def test_nothing_that_a_client_started_outlives_it(bench: Bench) -> None:
    body = 'child = subprocess.Popen(["sleep", "600"]); print(json.dumps({"pid": child.pid}), flush=True)'
    for tail in ("", "; time.sleep(60)"):
        try:
            pid = int(
                bench.measure(LoadTable(client="command", program=(bench.script(body + tail),), timeout="1s")).metrics[
                    "pid"
                ]
            )
        except LoadError as error:
            pid = int(error.message.rpartition('{"pid": ')[2].rstrip("}"))
        until = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text():
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_server_that_dies_ends_the_client(bench: Bench) -> None:
    with pytest.raises(LoadError, match="died while it was measured"):
        bench.measure(LoadTable(client="command", program=(bench.script("time.sleep(600)"),)), alive=lambda: False)


def test_the_model_is_what_the_server_lists_first(bench: Bench) -> None:
    load = LoadTable(client="command", program=(bench.script(TELL), "{model}"))
    with serving() as url:
        bench.measure(load, Workload(concurrency=1, requests=1), url=url)
    with tarfile.open(bench.out) as archive:
        said = archive.extractfile("command/client.log")
        assert said is not None
        assert '"argv": ["mock"]' in said.read().decode()
    with pytest.raises(LoadError, match="cannot connect"):
        bench.measure(load, Workload(concurrency=1, requests=1), url="http://127.0.0.1:9")


def test_variables_and_the_tokenizers_directory(bench: Bench) -> None:
    body = 'print(json.dumps({"x": 1, "HF": os.environ.get("HF_HUB_OFFLINE"), "MINE": os.environ.get("MINE")}))'
    program = (bench.script(body),)
    for tokenizer, offline in ((str(bench.folder), '"1"'), ("org/name", "null")):
        load = LoadTable(client="vllm", program=program, env={"MINE": "5"}, tokenizer=tokenizer)
        with pytest.raises(LoadError, match="the result of vllm is not what was expected: FileNotFoundError"):
            bench.measure(load)
        with tarfile.open(bench.out) as archive:
            said = archive.extractfile("vllm/client.log")
            assert said is not None
            assert f'"HF": {offline}, "MINE": "5"' in said.read().decode()


@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_program_that_is_missing_is_named_with_its_remedy(name: str) -> None:
    load = LoadTable(client=name, program=("no-such-client",))  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        open_outside(load, is_here=True).require((LOAD,))
    assert caught.value.message == "there is no program 'no-such-client' here"
    assert caught.value.hint.startswith("pip install ")


def test_a_command_needs_a_program() -> None:
    with pytest.raises(UsageError, match="has no program"):
        AnyProgram(LoadTable(client="command")).require((LOAD,))


@pytest.mark.parametrize("name", sorted(PEERS))
def test_what_a_client_cannot_be_told_is_refused(name: str) -> None:
    load = open_outside(LoadTable(client=name, program=(sys.executable,)), is_here=True)  # type: ignore[arg-type]
    load.require((LOAD,))
    everything = Workload(
        rate=2, requests=4, prompts="prompts.txt", isl=Lengths(mean=8, sd=2, low=4, high=9), slo=Slo(ttft_ms=5), seed=3
    )
    with pytest.raises(UsageError, match=f"{name} cannot be told prompts"):
        load.require((everything,))
    if "duration_s" not in PEERS[name].takes:
        with pytest.raises(UsageError, match=f"{name} measures a number of requests, and workload 'default' has none"):
            load.require((Workload(concurrency=1),))


def test_every_way_to_ask_is_either_translated_or_refused() -> None:
    """A client that takes a key must show it: its arguments with the key differ from those without."""
    from knowngood.loads.peers.peer import Job, Peer, asked

    ways = {
        "endpoint = chat": Workload(concurrency=2, requests=6, endpoint="chat"),
        "arrivals = poisson": Workload(rate=2, requests=6),
        "arrivals = constant": Workload(rate=2, requests=6, arrivals="constant"),
        "warmup": Workload(concurrency=2, requests=6, warmup=5),
        "timeout_s": Workload(concurrency=2, requests=6, timeout_s=7),
        "slo": Workload(concurrency=2, requests=6, slo=Slo(ttft_ms=5, tpot_ms=6, e2e_ms=7)),
        "extra": Workload(concurrency=2, requests=6, extra={"top_k": 3}),
        "isl.sd": Workload(concurrency=2, requests=6, isl=Lengths(mean=128, sd=9)),
        "osl.sd": Workload(concurrency=2, requests=6, osl=Lengths(mean=64, sd=9)),
        "isl.low": Workload(concurrency=2, requests=6, isl=Lengths(mean=128, sd=9, low=77)),
        "osl.high": Workload(concurrency=2, requests=6, osl=Lengths(mean=64, sd=9, high=88)),
        "duration_s": Workload(concurrency=2, duration_s=33),
    }

    def argv(peer: Peer, workload: Workload) -> list[str]:
        return peer.argv(Job(url="http://h:1", model="m", tokenizer="t", workload=workload, seed=0, folder=Path("/w")))

    for peer in PEERS.values():
        plain = argv(peer, Workload(concurrency=2, requests=6))
        for way, workload in ways.items():
            if way in peer.takes:
                assert argv(peer, workload) != plain, f"{peer.name} takes {way} and says nothing of it"
            elif way != "duration_s":
                assert way in asked(workload)
                with pytest.raises(UsageError):
                    peer.require(workload)


def config(folder: Path, text: str) -> LabConfig:
    (folder / "knowngood.toml").write_text(text)
    return load_lab(folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[server]\nengine = "openai"\ncommand = ["x"]\n[load]\nclient = "llama-bench"', "does not go with the engine"),
        ('[server]\nengine = "command"\ncommand = ["x"]\n[load]\nclient = "vllm"', "does not go with the engine"),
        (
            '[host]\nload_from = "host"\n[server]\nengine = "openai"\ncommand = ["x"]\n[load]\nclient = "vllm"',
            "runs on this machine",
        ),
        ('[server]\nengine = "openai"\ncommand = ["x"]\n[load]\nclient = "wrk"', "Invalid enum value 'wrk'"),
        ('[server]\nengine = "openai"\ncommand = ["x"]\n[load]\ntimeout = "1d"', r"\[load\] timeout is '1d'"),
        ('[server]\nengine = "openai"\ncommand = ["x"]\n[load]\ntokeniser = "x"', "unknown key 'tokeniser'"),
    ],
)
def test_tables_that_do_not_go_together_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(KnowngoodError, match=says):
        open_load(config(tmp_path, text), LocalHost(tmp_path / "state"))


def test_a_relative_program_lies_in_the_lab(tmp_path: Path) -> None:
    server = '[server]\nengine = "openai"\ncommand = ["x"]\n[load]\nclient = "command"\n'
    assert config(tmp_path, server + 'program = ["./b.sh", "x/y"]').load.program == (
        os.path.join(tmp_path, "b.sh"),  # noqa: PTH118
        "x/y",
    )
    assert config(tmp_path, server + 'program = ["bench"]').load.program == ("bench",)


PP = '{"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 480.5, "stddev_ts": 2.0, "samples_ts": [480.0, 481.0]}'
TG = '{"n_prompt": 0, "n_gen": 128, "n_depth": 4096, "avg_ts": 97.25}'
BOTH = '{"n_prompt": 64, "n_gen": 16, "avg_ts": 50}'


def test_llama_bench_rows_are_named_as_it_names_them() -> None:
    metrics, rows = llama_bench(f'load: {{"x": 1}}\n{PP}\n{{"avg": 3}}\n{TG}\n{BOTH}\n')
    assert metrics == {"pp512_tok_s": 480.5, "tg128_d4096_tok_s": 97.25, "pp64_tg16_tok_s": 50.0}
    assert rows == f"{PP}\n{TG}\n{BOTH}\n"


@pytest.mark.parametrize(
    ("text", "says"), [("| pp512 | 480.5 |", "add -o jsonl"), (f"{PP}\n{PP}", "two tests are called pp512_tok_s")]
)
def test_llama_bench_output_that_cannot_be_used_is_told(text: str, says: str) -> None:
    with pytest.raises(NoMetrics, match=says):
        llama_bench(text)
