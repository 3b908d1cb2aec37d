"""Facts about a host: a path or a program, and a pure reader of what it says."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from knowngood.config.lab import LabConfig
from knowngood.errors import HostError
from knowngood.model.baseline import Baseline
from knowngood.model.launch import flag_values
from knowngood.ports import Host

MEASURE_ANEW = "run `knowngood baseline` to measure anew"
SAME = {
    "kernel": "the kernel",
    "nvidia_driver": "NVIDIA's driver",
    "amdgpu_driver": "AMD's driver",
    "cpu": "the CPU",
    "cores": "the number of cores",
}
"""Facts that decide how fast a host is, and how they are called."""
MODEL_FLAGS = ("--model", "--model-path")
SERVING = ("serve", "trtllm-serve")
"""Words that a model's name may follow."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A file of the host and how to read it."""

    path: str
    parse: Callable[[str], str]


def cpu_model(text: str) -> str:
    """Read the processor's name from /proc/cpuinfo."""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def core_count(text: str) -> str:
    """Read the number of processors from /proc/cpuinfo."""
    return str(len(re.findall(r"^processor\s*:", text, re.MULTILINE)))


def memory_mb(text: str) -> str:
    """Read the memory in MB from /proc/meminfo."""
    found = re.search(r"^MemTotal:\s*(\d+) kB", text, re.MULTILINE)
    return str(int(found[1]) // 1024) if found else ""


FACTS: Mapping[str, Fact] = {
    "cpu": Fact("/proc/cpuinfo", cpu_model),
    "cores": Fact("/proc/cpuinfo", core_count),
    "memory_mb": Fact("/proc/meminfo", memory_mb),
    "kernel": Fact("/proc/sys/kernel/osrelease", str.strip),
    "nvidia_driver": Fact("/sys/module/nvidia/version", str.strip),
    "amdgpu_driver": Fact("/sys/module/amdgpu/version", str.strip),
}


def host_facts(host: Host) -> dict[str, str]:
    """Read what there is to know of a host without starting anything; what cannot be read is left out."""
    found: dict[str, str] = {}
    for name, fact in FACTS.items():
        try:
            content = host.look(fact.path)
        except HostError:
            continue
        value = fact.parse(content.decode(errors="replace")) if content else ""
        if value:
            found[name] = value
    return found


def changed_since(baseline: Baseline, facts: Mapping[str, str]) -> str:
    """Say in what a host is another one than a baseline was measured on; empty if it is the same, or nobody knows."""
    return "; ".join(
        f"{called} changed since the baseline: {baseline.facts[name]} became {facts[name]}"
        for name, called in SAME.items()
        if name in facts and name in baseline.facts and facts[name] != baseline.facts[name]
    )


def server_facts(config: LabConfig, version: str) -> dict[str, str]:
    """Engine, the version that it says it is, and the model that it was started with."""
    facts = {"engine": config.server.engine}
    if version:
        facts["engine_version"] = version
    words = config.server.command
    named = [value for flag in MODEL_FLAGS for value in flag_values(words, (flag,)) if value]
    named += [word for verb, word in pairwise(words) if verb.rpartition("/")[2] in SERVING and not word.startswith("-")]
    # Last, because it is Python's -m, too.
    named += [value for value in flag_values(words, ("-m",)) if value]
    model = next(iter(named), "")
    if model:
        facts["model"] = model.rsplit("/", 1)[-1]
    return facts
