"""A lab for the demo: a small real server, a load that repeats itself, and hypotheses that show every outcome.

Seen with xllamacpp 2026.10.11549 on two virtual CPUs, by the demo itself (output tokens per second): one thread to
two +76 to +111 %; eight threads instead of two -50 to -66 %; four slots instead of one +33 to +53 %; ``ngram-simple``
on one slot +23 % with four rows in a prompt, nothing with two; ``ngram-cache`` with the lookup cache on four slots
-14 to -23 %; ``--load-mode none`` and a variable that nobody reads: nothing. Memory: 257 to 260 MB, with
``ngram-simple`` 267 MB, with four slots 262 MB.
"""

import json
import os
import socket
from importlib.resources import files
from pathlib import Path

from knowngood.demo.experiments import EXPERIMENTS, Experiment
from knowngood.demo.prompts import OTHER_PLACES, PLACES, prompt_file
from knowngood.demo.size import size
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
osl = {{ mean = {osl}, sd = {spread}, low = 4 }}
warmup = 2
extra = {{ temperature = 0.0 }}

[objective]
metric = "output_tok_s"
direction = "higher"
worthwhile = "5%"

[guards]
error_rate = 0
answers = "equivalent"
# The server is so small that tables of a few MB count for more than the default of 2 %.
memory = "10%"

[answers]
prompts = "answers.jsonl"
count = {count}
tokens = {tokens}

[verdict]
profile = "{profile}"
baseline_pairs = {pairs}
"""


def write_lab(
    folder: Path, *, model: Path, draft: Path, quick: bool = False, slowness: float = 1.0
) -> tuple[Path, ...]:
    """Write the demo's lab.

    Args:
        folder: Directory to write into; made if it is not there.
        model: The model that is served.
        draft: A draft model with another vocabulary.
        quick: Shorter runs, shorter answers and the quick profile.
        slowness: Of the machine (see ``demo.size``): a slow one gets shorter runs.

    Returns:
        The experiment files, in the order in which they tell a story.

    Raises:
        UsageError: There is a lab already.
        HostError: The folder cannot be written.
    """
    if (folder / LAB_FILE).exists():
        raise UsageError(f"{folder} holds a lab already", hint="name another folder, or delete it")
    cores = len(os.sched_getaffinity(0))
    chosen = size(quick=quick, slowness=slowness)
    lab = LAB.format(
        model=json.dumps(str(model)),
        port=free_port(),
        duration=chosen.duration_s,
        osl=chosen.osl,
        spread=chosen.osl // 5,
        count=chosen.answers,
        tokens=chosen.tokens,
        pairs=3 if quick else 4,
        profile="quick" if quick else "standard",
    )
    try:
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        (folder / LAB_FILE).write_text(lab, encoding="utf-8")
        (folder / "prompts.jsonl").write_text(prompt_file(PLACES, rows=chosen.rows), encoding="utf-8")
        (folder / "answers.jsonl").write_text(prompt_file(OTHER_PLACES, rows=chosen.rows), encoding="utf-8")
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
