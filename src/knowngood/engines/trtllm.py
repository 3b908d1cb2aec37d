"""TensorRT-LLM: ``trtllm-serve MODEL``.

Written from its source (``tensorrt_llm/commands/serve.py`` and ``tensorrt_llm/serve/openai_server.py``, 1.2 and 1.3)
and public logs; it needs an NVIDIA GPU to start at all, and was not run by us. What it resolves its options to is on no
page and in no line, so that a flag is proven by the arguments alone: its parser refuses what it does not know.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from knowngood.engines.decode import Version, decode
from knowngood.engines.server import ResolvingServer
from knowngood.ports import Readiness

GROUPS = (
    # Canonical spelling first.
    ("--tensor_parallel_size", "--tp_size"),
    ("--pipeline_parallel_size", "--pp_size"),
    ("--context_parallel_size", "--cp_size"),
    ("--moe_expert_parallel_size", "--ep_size"),
    ("--moe_cluster_parallel_size", "--cluster_size"),
    ("--free_gpu_memory_fraction", "--kv_cache_free_gpu_memory_fraction"),
    ("--config", "--extra_llm_api_options"),
)
ALIASES = {name: group[0] for group in GROUPS for name in group[1:]}
VERSION = re.compile(r"\[TensorRT-LLM\] TensorRT[- ]LLM version: (\S+)")


class Speculation(msgspec.Struct, frozen=True, kw_only=True):
    """``specDecodingStats`` of one iteration."""

    acceptance_length: float = msgspec.field(default=0.0, name="acceptanceLength")
    requests: int = msgspec.field(default=0, name="numRequestsWithDraftTokens")


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``/metrics``."""

    speculation: Speculation | None = msgspec.field(default=None, name="specDecodingStats")


class TRTLLM(ResolvingServer):
    """trtllm-serve: flags, readiness and effect proofs."""

    name = "trtllm"
    layers = ("trtllm", "nccl", "cuda", "hub", "os", "python")
    aliases: Mapping[str, str] = ALIASES
    pages: Sequence[str] = ("/version", "/v1/models", "/metrics", "/prometheus/metrics")
    readiness: Readiness | None = Readiness(
        health="/health",
        first_answer="/v1/completions",
        stages=(
            r"Using LLM with \w+ backend",
            r"start MpiSession with \d+ workers",
            r"Model init total",
            r"Allocated .* for max tokens in paged KV cache",
            r"Application startup complete",
        ),
        hopeless=r"Executor worker returned error|Failed to initialize executor on rank",
    )

    def version(self, pages: Mapping[str, str], log: str) -> str:
        """From ``/version``, else from the log's first line."""
        page = decode(pages.get("/version", ""), Version) or Version()
        found = VERSION.search(log)
        return page.version or (found[1] if found else "")

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """Mean ``acceptanceLength`` of the iterations in ``/metrics``, weighted by their requests with drafts."""
        del log
        # The page gives each iteration once.
        iterations = decode(pages.get("/metrics", ""), tuple[Iteration, ...]) or ()
        drafted = [one.speculation for one in iterations if one.speculation and one.speculation.requests]
        requests = sum(one.requests for one in drafted)
        return sum(one.acceptance_length * one.requests for one in drafted) / requests if requests else None
