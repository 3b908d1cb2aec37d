"""Benchmarks of others as the lab's load, through whole trials on a real server.

aiperf, guidellm, SGLang's and vLLM's clients are big and need a tokenizer: their tests run where these are told by
``KNOWNGOOD_TEST_TOKENIZER`` (a directory) and found on PATH or as ``KNOWNGOOD_TEST_AIPERF`` and so on (a command line).
"""

import json
import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from knowngood.loads.peers import PEERS
from knowngood.model.events import LaunchMeasured
from knowngood.model.evidence import RunRecord
from knowngood.stores.artifacts import ArtifactFolder
from knowngood.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

LAB = """\
[server]
engine = "openai"
command = [{{python}}, {{server}}, "--port", "{{port}}", "--ttft-ms", "5"]
port = {{port}}
ready_timeout = "30s"
stop_grace = "5s"

[load]
{load}

[[workload]]
concurrency = 2
requests = 8
isl = 16
osl = 24

[objective]
metric = "{metric}"

[guards]
answers = "off"

[verdict]
profile = "quick"
baseline_pairs = {pairs}
foreign_cores = 4.0
"""
FASTER = '[[change]]\nedit = "pace.txt"\nfind = "10"\nreplace = "2"\n'
BENCH = """\
import http.client, json, sys, time
host, port = sys.argv[1].removeprefix("http://").split(":")
began, tokens = time.monotonic(), 0
for _ in range(int(sys.argv[2])):
    connection = http.client.HTTPConnection(host, int(port))
    body = json.dumps({"model": sys.argv[3], "prompt": "Hi", "max_tokens": int(sys.argv[4])})
    connection.request("POST", "/v1/completions", body)
    tokens += json.loads(connection.getresponse().read())["usage"]["completion_tokens"]
print("measured", tokens, "tokens")
print(json.dumps({"tok_s": tokens / (time.monotonic() - began), "requests": int(sys.argv[2])}))
"""


def runs(lab: "RealLab") -> list[RunRecord]:
    """Every run that the lab has recorded."""
    store = SqliteStore(lab.root / ".knowngood" / "store.db")
    launches = [event.launch for _, event in store.events() if isinstance(event, LaunchMeasured)]
    return [run for launch in launches for run in launch.runs]


def test_a_program_of_ones_own_measures_a_trial(lab: "RealLab") -> None:
    (lab.root / "bench.py").write_text(BENCH)
    program = json.dumps([sys.executable, str(lab.root / "bench.py"), "{url}", "{requests}", "{model}", "{osl}"])
    # The lab file is a template itself: braces meant for the program are doubled.
    doubled = program.replace("{", "{{").replace("}", "}}")
    lab.write(LAB.format(load=f'client = "command"\nprogram = {doubled}', metric="tok_s", pairs=2))
    measured = lab.run("baseline", "--json")
    assert measured.status == 0, measured
    tried = lab.run("try", lab.experiment("faster", FASTER), "--json")
    assert tried.status == 0, tried
    assert tried.json["trials"][0]["verdict"]["decision"] == "keep", tried
    (first, *_) = runs(lab)
    assert (first.client, first.requests) == ("command", 8)
    assert ArtifactFolder(lab.root / ".knowngood" / "artifacts").path(first.samples).exists()
    lab.assert_known_good()

    report = lab.run("report", "--out", str(lab.root / "report.html"))
    assert report.status == 0, report
    assert "are missing" not in (lab.root / "report.html").read_text()


def test_a_client_that_fails_makes_a_trial_void_and_leaves_known_good(lab: "RealLab") -> None:
    (lab.root / "bench.py").write_text(BENCH)
    doubled = json.dumps([sys.executable, str(lab.root / "bench.py"), "{{url}}", "2", "{{model}}", "{{osl}}"])
    lab.write(LAB.format(load=f'client = "command"\nprogram = {doubled}', metric="tok_s", pairs=2))
    assert lab.run("baseline").status == 0
    (lab.root / "bench.py").write_text('import sys; sys.exit("the tokenizer is gone")')
    tried = lab.run("try", lab.experiment("faster", FASTER))
    assert tried.status == 1, tried
    assert "command ended with status 1: the tokenizer is gone" in tried.out
    lab.assert_known_good()


def test_another_client_asks_for_a_new_baseline(lab: "RealLab") -> None:
    assert lab.run("baseline").status == 0
    text = (lab.root / "knowngood.toml").read_text()
    (lab.root / "knowngood.toml").write_text(text + '\n[load]\nclient = "command"\nprogram = ["true"]\n')
    tried = lab.run("try", lab.experiment("null", ""))
    assert tried.status == 2, tried
    assert "[[workload]], [load] or [objective] has changed since the baseline" in tried.err


def test_a_client_that_is_not_there_is_told_before_anything_starts(lab: "RealLab") -> None:
    lab.write(LAB.format(load='client = "guidellm"\nprogram = ["no-such-client"]', metric="output_tok_s", pairs=1))
    done = lab.run("baseline")
    assert done.status == 2, done
    assert "there is no program 'no-such-client' here" in done.err
    assert "pip install guidellm" in done.err
    assert "there is no program 'no-such-client' here" in lab.run("doctor").out


LLAMA_BENCH = """\
import json, sys
threads = int(sys.argv[sys.argv.index("-t") + 1])
for prompt, generated, speed in ((512, 0, 400), (0, 128, 90)):
    row = {"n_prompt": prompt, "n_gen": generated, "n_depth": 0, "avg_ts": speed * threads, "samples_ts": [speed]}
    print(json.dumps(row), flush=True)
"""


def test_llama_bench_rows_decide_a_trial_without_a_server(lab: "RealLab") -> None:
    (lab.root / "llama_bench.py").write_text(LLAMA_BENCH)
    command = json.dumps([sys.executable, str(lab.root / "llama_bench.py"), "-t", "1", "-o", "jsonl"])
    (lab.root / "knowngood.toml").write_text(
        f'[server]\nengine = "command"\ncommand = {command}\n[load]\nclient = "llama-bench"\n'
        '[objective]\nmetric = "tg128_tok_s"\n[guards]\nanswers = "off"\n'
        '[verdict]\nprofile = "quick"\nbaseline_pairs = 2\nforeign_cores = 4.0\n'
    )
    measured = lab.run("baseline", "--json")
    assert measured.status == 0, measured
    assert measured.json["values"] == [90, 90, 90, 90]
    tried = lab.run("try", lab.experiment("threads", '[[change]]\nflag = "-t"\nvalue = "2"\n'), "--json")
    assert tried.json["trials"][0]["verdict"]["decision"] == "keep", tried


def find(name: str) -> tuple[list[str], str]:
    """Command line of a real client, and the tokenizer; skips, loudly, where one of them is missing."""
    told = os.environ.get(f"KNOWNGOOD_TEST_{name.upper()}", "")
    tokenizer = os.environ.get("KNOWNGOOD_TEST_TOKENIZER", "")
    program = shlex.split(told) or ([name] if shutil.which(name) else [])
    if not program or not tokenizer:
        pytest.skip(f"no real {name}: set KNOWNGOOD_TEST_{name.upper()} and KNOWNGOOD_TEST_TOKENIZER")
    return program, tokenizer


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_real_client_measures_a_trial(lab: "RealLab", name: str) -> None:
    program, tokenizer = find(name)
    load = f"client = {json.dumps(name)}\nprogram = {json.dumps(program)}\ntokenizer = {json.dumps(tokenizer)}"
    lab.write(LAB.format(load=load, metric="tpot_p50_ms", pairs=1))
    measured = lab.run("baseline", "--json", timeout=400)
    assert measured.status == 0, measured
    first = runs(lab)[0]
    assert (first.errors, first.client) == (0, name)
    # guidellm counts the requests that overlap its window, which is one more or less than those it was told.
    assert 6 <= first.requests <= 10 if name == "guidellm" else first.requests == 8
    # Tokens leave every 10 ms, the first after 5 ms.
    assert 9 < first.metrics["tpot_p50_ms"] < 15
    assert 4 < first.metrics["ttft_p50_ms"] < 200
    assert first.metrics["output_tok_s"] > 20
    tried = lab.run("try", lab.experiment("faster", FASTER), "--json", timeout=1000)
    assert tried.status == 0, tried
    assert tried.json["trials"][0]["verdict"]["estimate"] > 1, tried
    lab.assert_known_good()
