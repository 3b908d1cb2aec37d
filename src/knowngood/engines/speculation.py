"""How well drafts do, from the metrics pages and logs of the engines: llama.cpp, vLLM, SGLang.

The acceptance length counts what one verification yields, the bonus token included. It is comparable between engines;
acceptance *rates* are not: some count the bonus token, some do not, and one engine changed that between two versions.
"""

import re
from collections.abc import Mapping, Sequence

NUMBER = r"([0-9.]+(?:[eE][+-]?[0-9]+)?)"
PAGE = "/metrics"
COUNTERS = ("llamacpp:spec_decode_num_", "vllm:spec_decode_num_")
"""Both count drafts (verifications) and the tokens accepted out of them."""
SGLANG_LOG = re.compile(rf"accept len: {NUMBER}")
"""One line every few steps: ``Decode batch, #running-req: 1, …, accept len: 2.31, accept rate: 0.58, …``."""
SGLANG_GAUGE = "sglang:spec_accept_length"
LLAMACPP_LOG = re.compile(rf"draft acceptance[ =].*\( *(\d+) accepted / *\d+ generated\), mean len = *{NUMBER}")
"""One line a request: ``draft acceptance = 0.57143 (    8 accepted /    14 generated), mean len =  2.33``."""


def acceptance_length(pages: Mapping[str, str], log: str) -> float | None:
    """Tokens per verification so far, whichever engine tells; None if nothing was drafted, or nobody tells."""
    page = pages.get(PAGE, "")
    for prefix in COUNTERS:
        drafts = values(page, f"{prefix}drafts")
        if drafts:
            return 1 + sum(values(page, f"{prefix}accepted_tokens")) / sum(drafts) if sum(drafts) else None
    # SGLang's gauge shows the last interval only, its log every one.
    lengths = [float(found) for found in SGLANG_LOG.findall(log)] or values(page, SGLANG_GAUGE)
    speculated = [length for length in lengths if length > 0]
    return sum(speculated) / len(speculated) if speculated else told_by_requests(log)


def values(page: str, name: str) -> Sequence[float]:
    """Samples of a metric on a page in Prometheus' text format, whatever their labels."""
    pattern = rf"^{re.escape(name)}(?:_total)?(?:\{{[^}}]*\}})? {NUMBER}"
    return [float(found) for found in re.findall(pattern, page, re.MULTILINE)]


def told_by_requests(log: str) -> float | None:
    """Acceptance length out of the lines that llama.cpp writes for each request; None if there are none."""
    accepted = drafts = 0.0
    for count, mean in LLAMACPP_LOG.findall(log):
        length = float(mean)
        # A request without an accepted token does not say how often it drafted: it counts once.
        drafts += float(count) / (length - 1) if length > 1 else 1.0
        accepted += float(count)
    return 1 + accepted / drafts if drafts else None
