"""Compile caches of a candidate's own: what was compiled from changed code must never be run for other code."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from knowngood.model.change import ChangeSet
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Host
from knowngood.reason.findings import change_key

CACHES: Mapping[str, str] = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "VLLM_CACHE_ROOT": "vllm",
    "SGLANG_DG_CACHE_DIR": "deep_gemm",
    "DG_JIT_CACHE_DIR": "deep_gemm",
    "TVM_FFI_CACHE_DIR": "tvm_ffi",
    "CUDA_CACHE_PATH": "cuda",
}
"""Variable to directory, for everything that engines compile at run time and look up by keys of their own."""


def with_own_caches(host: Host, spec: LaunchSpec, changes: ChangeSet, *, folder: Path, version: int) -> LaunchSpec:
    """A launch with compile caches of its own, where the user has not named any.

    Args:
        host: Where the directories are made, and whose environment tells what the user has set.
        spec: The candidate's launch.
        changes: The change set; only file changes and pins change what is compiled.
        folder: Directory of all our caches.
        version: Of the baseline: the same change set on another baseline is other code.
    """
    if not (changes.edits() or changes.pins()):
        return spec
    mine = folder / f"{change_key(changes)}-{version}"
    own = {name: str(mine / place) for name, place in CACHES.items()}
    inherited = {
        line.partition(b"=")[0].decode(errors="replace")
        for line in host.run(["env", "-0"], timeout_s=30).out.split(b"\0")
    }
    named = {name for name, value in spec.env.items() if not value.startswith(f"{folder}/")} | inherited | {*spec.unset}
    fresh = {name: path for name, path in own.items() if name not in named}
    if fresh:
        host.run(["mkdir", "-p", "--", *sorted(set(fresh.values()))], timeout_s=30)
    return msgspec.structs.replace(spec, env={**spec.env, **fresh})
