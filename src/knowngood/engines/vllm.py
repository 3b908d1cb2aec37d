"""vLLM: ``vllm serve MODEL`` or ``python -m vllm.entrypoints.openai.api_server``."""

import re
from collections.abc import Mapping, Sequence

from knowngood.engines.decode import Version, decode
from knowngood.engines.fields import read_fields, read_items
from knowngood.engines.server import ResolvingServer
from knowngood.engines.signs import Feature, Said
from knowngood.model.change import Env
from knowngood.ports import Observed, Readiness

GROUPS = (
    # Canonical spelling first.
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size", "-dp"),
    ("--decode-context-parallel-size", "-dcp"),
    ("--prefill-context-parallel-size", "-pcp"),
    ("--data-parallel-rank", "-dpn"),
    ("--data-parallel-size-local", "-dpl"),
    ("--enable-expert-parallel", "-ep"),
    ("--nnodes", "-n"),
    ("--node-rank", "-r"),
    ("--quantization", "-q"),
    ("--api-server-count", "-asc"),
    ("--speculative-config", "-sc"),
    ("--compilation-config", "-cc"),
)
ALIASES = {name: group[0] for group in GROUPS for name in group[1:]}

DESTS = {
    "--max-model-len": "max_seq_len",
    "--kv-cache-dtype": "kv_cache_dtype",
}

FEATURES = (
    Feature(
        names=("VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC",), on=r"FLASHINFER_PCIE_IPC|FlashInfer PCIe IPC all-reduce"
    ),
)

CONFIG = re.compile(r"Initializing an? (?:V\d )?LLM engine \(v([^)]+)\) with config: ")
NON_DEFAULT = re.compile(r"non-default args: \{")
CACHE = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
UNKNOWN = re.compile(r"Unknown vLLM environment variable detected: (\w+)")
COUNTER = r"^vllm:spec_decode_num_{}(?:_total)?(?:\{{.*\}})? (\S+)"


class VLLM(ResolvingServer):
    """vLLM: flags, readiness and effect proofs."""

    name = "vllm"
    layers = ("vllm", "flashinfer", "triton", "nccl", "cuda", "hub", "os", "python")
    aliases: Mapping[str, str] = ALIASES
    dests: Mapping[str, str] = DESTS
    features: Sequence[Feature] = FEATURES
    workers = r"^VLLM::(?:Worker|EngineCore)"
    pages: Sequence[str] = ("/version", "/v1/models", "/metrics")
    readiness: Readiness | None = Readiness(
        health="/health",
        first_answer="/v1/completions",
        stages=(
            r"non-default args",
            r"Initializing an? (?:V\d )?LLM engine",
            r"Starting to load model",
            r"Loading (?:weights|safetensors)",
            r"Model loading took",
            r"torch\.compile takes",
            r"KV cache size",
            r"Capturing CUDA graph",
            r"Graph capturing finished",
            r"init engine .* took",
            r"Starting vLLM (?:API )?server",
            r"Application startup complete",
        ),
        hopeless=r"Engine core initialization failed|EngineDeadError|EngineCore encountered a fatal error",
    )

    def configurations(self, observed: Observed) -> Sequence[tuple[str, Mapping[str, str]]]:
        """What its metrics say of the cache, the engine's own line, then what its parser was given."""
        cache = CACHE.search(observed.pages.get("/metrics", ""))
        line = CONFIG.search(observed.log)
        given = NON_DEFAULT.search(observed.log)
        return (
            ("/metrics cache_config_info", dict(LABEL.findall(cache[1])) if cache else {}),
            ("the engine's config in the log", read_fields(rest_of_line(observed.log, line))),
            ("non-default args in the log", read_items(rest_of_line(observed.log, given))),
        )

    def said_of_variable(self, change: Env, observed: Observed) -> Said:
        """That it does not know the variable."""
        if change.value is not None and change.name in UNKNOWN.findall(observed.log):
            return False, f"the log says: Unknown vLLM environment variable detected: {change.name}"
        return None

    def version(self, pages: Mapping[str, str], log: str) -> str:
        """From ``/version``, else from the log."""
        page = decode(pages.get("/version", ""), Version) or Version()
        found = CONFIG.search(log)
        return page.version or (found[1] if found else "")

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """One, and the tokens accepted for each draft: vLLM's own "mean acceptance length"."""
        del log
        drafts = count(pages, "drafts")
        return 1 + count(pages, "accepted_tokens") / drafts if drafts else None


def count(pages: Mapping[str, str], name: str) -> float:
    """A counter of speculation, summed over engines."""
    samples = re.findall(COUNTER.format(name), pages.get("/metrics", ""), re.MULTILINE)
    return sum(float(sample) for sample in samples)


def rest_of_line(log: str, found: "re.Match[str] | None") -> str:
    """What stands behind a match, up to the end of its line."""
    return log[found.end() :].partition("\n")[0] if found else ""
