"""GuideLLM. Tried with guidellm 0.8.1."""

import json

from knowngood.loads.peers.peer import Job, Peer, Reading, read_json
from knowngood.model.workload import Lengths

RESULT = "result.json"
LATENCIES = {
    "ttft": "time_to_first_token_ms",
    # Both are of per-request means: percentiles of gaps it has none, and a stall does not show in these.
    "tpot": "inter_token_latency_ms",
    "e2e": "request_latency",
}
RATES = {
    "request_s": "requests_per_second",
    "output_tok_s": "output_tokens_per_second",
    "total_tok_s": "tokens_per_second",
}
MS = {"e2e": 1000.0}


def argv(job: Job) -> list[str]:
    """Its arguments for a pass."""
    load = job.workload
    form = "/v1/chat/completions" if load.endpoint == "chat" else "/v1/completions"
    backend = f"kind=openai_http,target={job.url},model={job.model},request_format={form}"
    words = ["run", "--backend", backend, "--profile", profile(job)]
    words += ["--constraint", f"kind=max_requests,count={load.requests}"]
    words += ["--data", ",".join(["kind=synthetic_text", *lengths("prompt", load.isl), *lengths("output", load.osl)])]
    words += ["--tokenizer", f"kind=hf_auto,model={job.tokenizer}"] if job.tokenizer else []
    return [*words, "--output", f"kind=json,path={job.folder / RESULT}", "--disable-progress"]


def profile(job: Job) -> str:
    """Its load pattern."""
    load = job.workload
    return f"kind={load.arrivals},rate={load.rate:g}" if load.rate else f"kind=concurrent,streams={load.concurrency}"


def lengths(name: str, asked: Lengths) -> list[str]:
    """A distribution of lengths, in its words."""
    found = [f"{name}_tokens={asked.mean:.0f}"]
    if asked.sd:
        found += [f"{name}_tokens_stdev={asked.sd:.0f}", f"{name}_tokens_min={asked.low}"]
        found += [f"{name}_tokens_max={asked.high}"] if asked.high else []
    return found


def read(job: Job) -> Reading:
    """What it reported; its inter-token latencies are of per-request means."""
    found = read_json(job.folder / RESULT)["benchmarks"][0]["metrics"]
    return Reading(metrics=found, requests=0)


GUIDELLM = Peer(
    name="guidellm",
    program=("guidellm",),
    install="pip install guidellm",
    takes=frozenset(
        {
            "endpoint = chat",
            "rate",
            "arrivals = poisson",
            "arrivals = constant",
            "isl.sd",
            "isl.low",
            "isl.high",
            "osl.sd",
            "osl.low",
            "osl.high",
        }
    ),
    argv=argv,
    read=read,
    offline={"HF_HUB_OFFLINE": "1"},
)
