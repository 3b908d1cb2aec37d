"""``sglang.bench_serving``. Flags and fields are read off its source; it was not run here."""

import json

from knowngood.loads.peers.peer import Job, Peer, Reading, count_errors, latency_names, pick, read_json

RESULT = "result.jsonl"
LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"}
POINTS = {"p50": "median", "p90": "p90", "p99": "p99", "mean": "mean"}
NAMES = {
    "request_s": "request_throughput",
    "output_tok_s": "output_throughput",
    "total_tok_s": "total_throughput",
    "input_tokens": "total_input_tokens",
    "output_tokens": "total_output_tokens",
    "acceptance_length": "accept_length",
    **latency_names(LATENCIES, POINTS),
}


def argv(job: Job) -> list[str]:
    """Its arguments for a pass."""
    load = job.workload
    words = ["--backend", "vllm-chat" if load.endpoint == "chat" else "vllm", "--base-url", job.url]
    words += ["--model", job.model, *(["--tokenizer", job.tokenizer] if job.tokenizer else [])]
    # "random" fetches a data set; "random-ids" makes its prompts up.
    words += ["--dataset-name", "random-ids", "--random-range-ratio", "1", "--seed", str(job.seed)]
    words += ["--random-input-len", f"{load.isl.mean:.0f}", "--random-output-len", f"{load.osl.mean:.0f}"]
    words += ["--num-prompts", str(load.requests), "--warmup-requests", str(load.warmup)]
    words += ["--request-rate", f"{load.rate:g}"] if load.rate else ["--max-concurrency", str(load.concurrency)]
    words += ["--extra-request-body", json.dumps({"ignore_eos": True, **load.extra})]
    return [*words, "--disable-tqdm", "--output-details", "--output-file", str(job.folder / RESULT)]


def read(job: Job) -> Reading:
    """What it reported; its inter-token latencies are of all gaps, pooled."""
    row = read_json(job.folder / RESULT)
    done = int(row["completed"])
    kinds = count_errors([str(text) for text in row.get("errors", [])])
    failed = max(0, job.workload.requests - done)
    metrics = pick(row, NAMES)
    metrics["error_rate"] = failed / max(1, done + failed)
    return Reading(metrics=metrics, requests=done + failed, error_kinds=kinds if failed else {})


SGLANG = Peer(
    name="sglang",
    program=("python3", "-m", "sglang.bench_serving"),
    install="pip install sglang",
    takes=frozenset({"endpoint = chat", "rate", "arrivals = poisson", "warmup", "extra"}),
    argv=argv,
    read=read,
    offline={"HF_HUB_OFFLINE": "1"},
)
