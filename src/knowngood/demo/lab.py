"""A lab for the demo: a small real server, a load that repeats itself, and hypotheses that show every outcome.

Measured with llama.cpp b11549 (xllamacpp 2026.10.11549) on two virtual CPUs (AMD Zen 5) that others used, too: server
and client with real-time priority, two launches an arm in the order A B B A, 4 clients; ratio of output tokens per
second, standard deviation of its logarithm between the two pairs:

- ``ngram-simple`` against none, 1 slot, 4 requests, 96 tokens out: 1.92 (0.022). A run takes 6.3 s without.
- 4 slots against 1 with ``ngram-simple``, the same load: 1.02 (0.026); without it, 8 requests, 48 tokens out: 1.42
  (0.039). What helps alone need not help on top of a keep. The other way round ``ngram-simple`` on top of 4 slots gave
  1.14 to 1.21, and in one trial of the demo itself nothing: that order makes no clear demo.
- 8 threads against 2, 4 slots, 8 requests, 64 tokens out: 0.67 (0.046).
- ``--load-mode none`` against none given, 4 slots, ``ngram-simple``, 8 requests, 64 tokens out: 0.99 (0.040).
- ``ngram-cache`` with the lookup cache against ``ngram-simple``, the same load: 0.89 (0.008).

Greedy text was the same in all answers of each comparison.
"""

import json
import os
import socket
from importlib.resources import files
from pathlib import Path

from knowngood.demo.experiments import EXPERIMENTS, Experiment
from knowngood.demo.prompts import OTHER_PLACES, PLACES, prompt_file
from knowngood.errors import HostError, UsageError

LAB_FILE = "knowngood.toml"
FOLDER = "experiments"
LOOKUP = "lookup.bin"

LAB = """\
# The demo's lab: llama.cpp with one thread and one slot, as a cautious person would begin, and four clients.
[host]
address = "local"

[server]
engine = "llamacpp"
command = [
  "llama-server",
  "-m", {model},
  "--alias", "smollm2",
  "--host", "127.0.0.1",
  "--port", "{port}",
  "--ctx-size", "4096",
  "--threads", "1",
  "--parallel", "1",
]
port = {port}
ready_timeout = "2m"

[[workload]]
name = "rows"
prompts = "prompts.jsonl"
concurrency = 4
duration_s = {duration}
osl = {{ mean = {osl}, sd = {spread}, low = 8 }}
warmup = 2
extra = {{ temperature = 0.0 }}

[objective]
metric = "output_tok_s"
direction = "higher"
worthwhile = "5%"

[guards]
error_rate = 0
answers = "equivalent"

[answers]
prompts = "answers.jsonl"
count = {count}
tokens = {tokens}

[verdict]
profile = "{profile}"
baseline_pairs = {pairs}
"""


def write_lab(folder: Path, *, model: Path, draft: Path, quick: bool = False) -> tuple[Path, ...]:
    """Write the demo's lab.

    Args:
        folder: Directory to write into; made if it is not there.
        model: The model that is served.
        draft: A draft model with another vocabulary.
        quick: Shorter runs, shorter answers and the quick profile.

    Returns:
        The experiment files, in the order in which they tell a story.

    Raises:
        UsageError: There is a lab already.
        HostError: The folder cannot be written.
    """
    if (folder / LAB_FILE).exists():
        raise UsageError(f"{folder} holds a lab already", hint="name another folder, or delete it")
    cores = len(os.sched_getaffinity(0))
    lab = LAB.format(
        model=json.dumps(str(model)),
        port=free_port(),
        duration="3.0" if quick else "8.0",
        osl=32 if quick else 48,
        spread=6 if quick else 10,
        count=6 if quick else 20,
        tokens=8 if quick else 24,
        pairs=3 if quick else 4,
        profile="quick" if quick else "standard",
    )
    try:
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        (folder / LAB_FILE).write_text(lab, encoding="utf-8")
        (folder / "prompts.jsonl").write_text(prompt_file(PLACES), encoding="utf-8")
        (folder / "answers.jsonl").write_text(prompt_file(OTHER_PLACES), encoding="utf-8")
        (folder / FOLDER / LOOKUP).write_bytes((files("knowngood.demo") / LOOKUP).read_bytes())
        return tuple(write_experiment(folder / FOLDER, each, draft=draft, cores=cores) for each in EXPERIMENTS)
    except OSError as error:
        raise HostError(
            f"the lab cannot be written to {folder}: {error.strerror or error}", hint="name a folder you may write to"
        ) from error


def write_experiment(folder: Path, experiment: Experiment, *, draft: Path, cores: int) -> Path:
    """Write one experiment file."""
    path = folder / f"{experiment.name}.toml"
    text = experiment.text.format(draft=json.dumps(str(draft)), cores=cores, threads=4 * cores)
    path.write_text(text, encoding="utf-8")
    return path


def free_port() -> int:
    """A TCP port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
