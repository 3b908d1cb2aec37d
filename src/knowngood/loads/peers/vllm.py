"""``vllm bench serve``. Tried with vLLM 0.32."""

import json

from knowngood.loads.peers.peer import Job, Peer, Reading, count_errors, latency_names, pick, read_json
from knowngood.model.workload import Slo

RESULT = "result.json"
LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
POINTS = {"p50": "p50", "p90": "p90", "p99": "p99", "mean": "mean"}
NAMES = {
    "request_s": "request_throughput",
    "goodput_s": "request_goodput",
    "output_tok_s": "output_throughput",
    "total_tok_s": "total_token_throughput",
    "input_tokens": "total_input_tokens",
    "output_tokens": "total_output_tokens",
    "acceptance_length": "spec_decode_acceptance_length",
    **latency_names(LATENCIES, POINTS),
}


def argv(job: Job) -> list[str]:
    """Its arguments for a pass."""
    load = job.workload
    chat = load.endpoint == "chat"
    words = ["bench", "serve", "--backend", "openai-chat" if chat else "openai", "--base-url", job.url]
    words += ["--endpoint", "/v1/chat/completions" if chat else "/v1/completions", "--model", job.model]
    words += ["--tokenizer", job.tokenizer] if job.tokenizer else []
    words += ["--dataset-name", "random", "--seed", str(job.seed), "--ignore-eos", "--temperature", "0"]
    words += ["--random-input-len", f"{load.isl.mean:.0f}", "--random-output-len", f"{load.osl.mean:.0f}"]
    words += ["--num-prompts", str(load.requests), "--num-warmups", str(load.warmup)]
    if load.rate:
        # A burstiness of 1 makes Poisson gaps; the gamma distribution gets ever steadier above.
        words += ["--request-rate", f"{load.rate:g}", "--burstiness", "1"]
    else:
        words += ["--max-concurrency", str(load.concurrency)]
    words += ["--goodput", *limits(load.slo)] if load.slo else []
    words += ["--extra-body", json.dumps(load.extra)] if load.extra else []
    words += ["--percentile-metrics", ",".join(LATENCIES.values()), "--metric-percentiles", "50,90,99"]
    return [
        *words,
        "--disable-tqdm",
        "--save-result",
        "--save-detailed",
        "--result-dir",
        str(job.folder),
        "--result-filename",
        RESULT,
    ]


def limits(slo: Slo) -> list[str]:
    """Limits for goodput, in its words."""
    named = {"ttft": slo.ttft_ms, "tpot": slo.tpot_ms, "e2el": slo.e2e_ms}
    return [f"{name}:{limit:g}" for name, limit in named.items() if limit is not None]


def read(job: Job) -> Reading:
    """What it reported; its inter-token latencies are of all gaps, pooled."""
    row = read_json(job.folder / RESULT)
    done, failed = int(row["completed"]), int(row.get("failed", 0))
    metrics = pick(row, NAMES)
    metrics["error_rate"] = failed / max(1, done + failed)
    kinds = count_errors([str(text) for text in row.get("errors", [])])
    return Reading(metrics=metrics, requests=done + failed, error_kinds=kinds if failed else {})


VLLM = Peer(
    name="vllm",
    program=("vllm",),
    install="pip install vllm",
    takes=frozenset({"endpoint = chat", "rate", "arrivals = poisson", "warmup", "slo", "extra"}),
    argv=argv,
    read=read,
    offline={"HF_HUB_OFFLINE": "1"},
)
