"""GuideLLM. Tried with guidellm 0.8.1."""

import json
from collections.abc import Mapping
from typing import Any

from knowngood.loads.peers.peer import Job, Peer, Reading, count_errors, read_json
from knowngood.model.workload import Lengths, Slo, Workload

RESULT = "result.json"
POINTS = ("p50", "p90", "p99")
LATENCIES = {
    "ttft": ("time_to_first_token_ms", 1.0),
    # Means of whole requests: of gaps it has no percentiles, and a stall does not show in these.
    "tpot": ("inter_token_latency_ms", 1.0),
    "e2e": ("request_latency", 1000.0),
}
RATES = {
    "request_s": "requests_per_second",
    "output_tok_s": "output_tokens_per_second",
    "total_tok_s": "tokens_per_second",
    "goodput_s": "request_goodput",
}


def argv(job: Job) -> list[str]:
    """Its arguments for a pass."""
    load = job.workload
    backend = {
        "kind": "openai_http",
        "target": job.url,
        "model": job.model,
        "request_format": "/v1/chat/completions" if load.endpoint == "chat" else "/v1/completions",
        "timeout": load.timeout_s,
        "extras": {"body": {"temperature": 0, **load.extra}},
    }
    tables: dict[str, Mapping[str, Any]] = {
        "--backend": backend,
        "--profile": profile(load),
        "--constraint": constraint(load),
        "--data": {"kind": "synthetic_text", **lengths("prompt", load.isl), **lengths("output", load.osl)},
        # Prompts and answers are not worth keeping; the times of all requests are kept all the same.
        "--metrics": {"kind": "generative", "sample_size": 0, "slo": limits(load.slo) if load.slo else None},
        "--seed": {"kind": "static", "value": job.seed},
        "--output": {"kind": "json", "path": str(job.folder / RESULT)},
    }
    if job.tokenizer:
        tables["--tokenizer"] = {"kind": "huggingface_auto", "model": job.tokenizer}
    told = [word for option, table in tables.items() for word in (option, json.dumps(table))]
    return ["run", *told, "--disable-progress"]


def profile(load: Workload) -> dict[str, Any]:
    """Its load pattern. Requests of the warm-up are a part of all that it sends."""
    pattern: dict[str, Any] = (
        {"kind": load.arrivals, "rate": load.rate} if load.rate else {"kind": "concurrent", "streams": load.concurrency}
    )
    warms = load.requests and load.warmup
    return {**pattern, "warmup": {"mode": "requests", "value": load.warmup}} if warms else pattern


def constraint(load: Workload) -> dict[str, Any]:
    """When it stops."""
    if load.requests:
        return {"kind": "max_requests", "count": load.requests + load.warmup}
    return {"kind": "max_duration", "seconds": load.duration_s}


def lengths(name: str, asked: Lengths) -> dict[str, int]:
    """A distribution of lengths, in its words."""
    found = {f"{name}_tokens": round(asked.mean)}
    if asked.sd:
        found |= {f"{name}_tokens_stdev": round(asked.sd), f"{name}_tokens_min": asked.low}
        found |= {f"{name}_tokens_max": asked.high} if asked.high else {}
    return found


def limits(slo: Slo) -> dict[str, float]:
    """Limits for goodput, in its words."""
    named = {"ttft_ms": slo.ttft_ms, "tpot_ms": slo.tpot_ms, "e2el_ms": slo.e2e_ms}
    return {name: limit for name, limit in named.items() if limit is not None}


def read(job: Job) -> Reading:
    """What it reported; its inter-token latencies are of per-request means."""
    (benchmark,) = read_json(job.folder / RESULT)["benchmarks"]
    found = benchmark["metrics"]
    metrics: dict[str, float] = {}
    for ours, (theirs, factor) in LATENCIES.items():
        good = found[theirs]["successful"]
        if good["count"]:
            metrics |= {f"{ours}_{point}_ms": good["percentiles"][point] * factor for point in POINTS}
            metrics[f"{ours}_mean_ms"] = good["mean"] * factor
    for ours, theirs in RATES.items():
        if found.get(theirs):
            metrics[ours] = found[theirs]["successful"]["mean"]
    totals = found["request_totals"]
    done, failed = int(totals["successful"]), int(totals["errored"])
    metrics["error_rate"] = failed / max(1, done + failed)
    kinds = count_errors([str(one.get("info", {}).get("error", "")) for one in benchmark["requests"]["errored"]])
    return Reading(
        metrics=metrics, requests=done + failed, error_kinds=kinds or ({"errored": failed} if failed else {})
    )


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
            "duration_s",
            "warmup",
            "timeout_s",
            "slo",
            "extra",
            *(f"{key}.{part}" for key in ("isl", "osl") for part in ("sd", "low", "high")),
        }
    ),
    argv=argv,
    read=read,
    offline={"HF_HUB_OFFLINE": "1"},
)
