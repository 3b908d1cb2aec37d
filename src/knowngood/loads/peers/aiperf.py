"""AIPerf. Tried with aiperf 0.13.0."""

import json
from pathlib import Path
from typing import Any

from knowngood.loads.peers.peer import Job, Peer, Reading, read_json
from knowngood.model.workload import Slo

RESULT = "profile_export_aiperf.json"


def argv(job: Job) -> list[str]:
    """Its arguments for a pass."""
    load = job.workload
    words = ["profile", "-m", job.model, "--url", job.url, "--streaming"]
    words += ["--endpoint-type", "chat" if load.endpoint == "chat" else "completions"]
    words += ["--tokenizer", job.tokenizer] if job.tokenizer else []
    words += ["--request-count", str(load.requests), "--random-seed", str(job.seed)]
    return words


def read(job: Job) -> Reading:
    """What it reported."""
    return Reading(metrics={}, requests=0)


AIPERF = Peer(
    name="aiperf",
    program=("aiperf",),
    install="pip install aiperf",
    takes=frozenset({"endpoint = chat", "rate"}),
    argv=argv,
    read=read,
)
