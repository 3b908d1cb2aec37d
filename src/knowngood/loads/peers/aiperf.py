"""AIPerf. Tried with aiperf 0.13.0."""

import json
from typing import Any

from knowngood.loads.peers.peer import Job, Peer, Reading, read_json
from knowngood.model.workload import Slo

RESULT = "profile_export_aiperf.json"
POINTS = {"p50": "p50", "p90": "p90", "p99": "p99", "mean": "avg"}
LATENCIES = {
    "ttft": "time_to_first_token",
    # Its chunks' gaps are pooled over all requests; what it calls inter-token latency is of per-request means.
    "itl": "inter_chunk_latency",
    "tpot": "inter_token_latency",
    "e2e": "request_latency",
}
RATES = {
    "request_s": "request_throughput",
    "output_tok_s": "output_token_throughput",
    "total_tok_s": "total_token_throughput",
    "goodput_s": "goodput",
    "input_tokens": "total_isl",
    "output_tokens": "total_osl",
}


def argv(job: Job) -> list[str]:
    """Its arguments for a pass."""
    load = job.workload
    words = ["profile", "--model", job.model, "--url", job.url, "--streaming"]
    words += ["--endpoint-type", "chat" if load.endpoint == "chat" else "completions"]
    words += ["--tokenizer", job.tokenizer] if job.tokenizer else []
    words += ["--extra-inputs", json.dumps({"ignore_eos": True, "temperature": 0, **load.extra})]
    words += ["--isl", f"{load.isl.mean:.0f}", "--osl", f"{load.osl.mean:.0f}"]
    words += ["--isl-stddev", f"{load.isl.sd:g}"] if load.isl.sd else []
    words += ["--osl-stddev", f"{load.osl.sd:g}"] if load.osl.sd else []
    if load.rate:
        words += ["--request-rate", f"{load.rate:g}", "--arrival-pattern", load.arrivals]
    else:
        words += ["--concurrency", str(load.concurrency)]
    words += (
        ["--request-count", str(load.requests)] if load.requests else ["--benchmark-duration", f"{load.duration_s:g}"]
    )
    words += ["--warmup-request-count", str(load.warmup)] if load.warmup else []
    words += ["--goodput", limits(load.slo)] if load.slo else []
    words += ["--request-timeout-seconds", f"{load.timeout_s:g}", "--random-seed", str(job.seed)]
    return [*words, "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", str(job.folder)]


def limits(slo: Slo) -> str:
    """Limits for goodput, in its words."""
    named = {LATENCIES["ttft"]: slo.ttft_ms, LATENCIES["tpot"]: slo.tpot_ms, LATENCIES["e2e"]: slo.e2e_ms}
    return " ".join(f"{name}:{limit:g}" for name, limit in named.items() if limit is not None)


def read(job: Job) -> Reading:
    """What it reported."""
    found = read_json(job.folder / RESULT)
    metrics: dict[str, float] = {}
    for ours, theirs in LATENCIES.items():
        block: dict[str, Any] = found.get(theirs) or {}
        metrics |= {f"{ours}_{point}_ms": float(block[word]) for point, word in POINTS.items() if word in block}
    metrics |= {ours: float(found[theirs]["avg"]) for ours, theirs in RATES.items() if found.get(theirs)}
    done, failed = (int((found.get(tag) or {"avg": 0})["avg"]) for tag in ("request_count", "error_request_count"))
    metrics["error_rate"] = failed / max(1, done + failed)
    summary: list[dict[str, Any]] = found.get("error_summary") or []
    kinds = {kind_of(one): int(one["count"]) for one in summary}
    return Reading(metrics=metrics, requests=done + failed, error_kinds=kinds or ({"failed": failed} if failed else {}))


def kind_of(one: dict[str, Any]) -> str:
    """Name a failure."""
    details: dict[str, Any] = one.get("error_details") or {}
    return str(details.get("code") or details.get("type") or "failed")


AIPERF = Peer(
    name="aiperf",
    program=("aiperf",),
    install="pip install aiperf",
    takes=frozenset(
        {
            "endpoint = chat",
            "rate",
            "arrivals = poisson",
            "arrivals = constant",
            "duration_s",
            "warmup",
            "warmup before duration_s",
            "timeout_s",
            "slo",
            "extra",
            "isl.sd",
            "osl.sd",
        }
    ),
    argv=argv,
    read=read,
)
