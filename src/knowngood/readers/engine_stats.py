"""What engines say of speculation and steps, in their metrics pages and logs.

Engines count differently: SGLang's ``accept len`` and vLLM's mean acceptance length hold the bonus token; rates hold it
or not by version, so they are not read. Sources: SGLang 0.5.10 and 0.5.23, vLLM 0.33.0, llama.cpp b11549.
"""

import re
import statistics
from collections.abc import Iterable

from knowngood.model.profile import EngineStats

ACCEPT_LEN = re.compile(r"accept len: (\d+(?:\.\d+)?)")
RATE = re.compile(r"gen throughput \(token/s\): (\d+(?:\.\d+)?)")
GRAPH = re.compile(r"cuda graph: (True|False)")
MEAN_LENGTH = re.compile(r"Mean acceptance length: (\d+(?:\.\d+)?)")
PER_POSITION = re.compile(r"Per-position acceptance rate: (\d[\d., ]*\d)")
VLLM_RATE = re.compile(r"Avg generation throughput: (\d+(?:\.\d+)?) tokens/s")
SGLANG_LENGTH = re.compile(r"sglang:spec_accept_length(?:\{[^}]*\})? (\S+)")
COUNTER = re.compile(
    r"(?:(\w+):)?spec_decode_num_(drafts|draft_tokens|accepted_tokens)(_per_pos)?(?:_total)?(\{[^}]*\})? (\d\S*)$"
)
POSITION = re.compile(r'position="(\d+)"')


def read_stats(source: str, lines: Iterable[str]) -> EngineStats | None:
    """Read a metrics page or a log; None if nothing in it is about speculation, rates or graphs."""
    lengths: list[float] = []
    rates: list[float] = []
    graphs: list[bool] = []
    acceptance: tuple[float, ...] = ()
    counters: dict[str, float] = {}
    positions: dict[int, float] = {}
    engine = ""
    for line in lines:
        if found := COUNTER.search(line.strip()):
            engine = engine or (found[1] or "")
            place = POSITION.search(found[4] or "")
            if found[3] and place:
                positions[int(place[1])] = positions.get(int(place[1]), 0.0) + float(found[5])
            elif not found[3]:
                counters[found[2]] = counters.get(found[2], 0.0) + float(found[5])
        elif found := SGLANG_LENGTH.match(line):
            engine, lengths = "sglang", [*lengths, float(found[1])]
        elif "Decode batch" in line:
            engine = "sglang"
            lengths += [float(value) for value in ACCEPT_LEN.findall(line)]
            rates += [float(value) for value in RATE.findall(line)]
            graphs += [value == "True" for value in GRAPH.findall(line)]
        elif "SpecDecoding metrics" in line or "Avg generation throughput" in line:
            engine = "vllm"
            lengths += [float(value) for value in MEAN_LENGTH.findall(line)]
            rates += [float(value) for value in VLLM_RATE.findall(line) if float(value) > 0]
            if found := PER_POSITION.search(line):
                acceptance = tuple(float(value) for value in found[1].split(","))
    drafts = counters.get("drafts", 0.0)
    if drafts and positions:
        acceptance = tuple(positions[at] / drafts for at in sorted(positions))
    if not (lengths or rates or graphs or acceptance or drafts):
        return None
    counted = 1 + counters.get("accepted_tokens", 0.0) / drafts if drafts else None
    drafted = round(counters["draft_tokens"] / drafts) if drafts and "draft_tokens" in counters else None
    return EngineStats(
        source=source,
        engine=engine,
        tokens_per_verify=counted if counted is not None else statistics.median(lengths) if lengths else None,
        acceptance=acceptance,
        drafts=drafted if drafted is not None else len(acceptance) or None,
        tok_s=statistics.median(rates) if rates else None,
        cuda_graph=statistics.median_low(graphs) if graphs else None,
    )
