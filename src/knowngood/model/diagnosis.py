"""Why a server did not start, died, or is not what was asked for."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

import msgspec

from knowngood.model.pattern import Pattern

Role = Literal["cause", "warning", "late", "wrapper", "silent", "generic", "stage"]
"""How a line counts. ``cause``: it says what went wrong. ``warning``: it explains a failure that another line reports.
``late``: a symptom that has a class of its own for want of better, such as a watchdog. ``wrapper``: it only says that
something else failed. ``silent``: the server comes up, a feature is not in force. ``generic``: an exception whose text
tells little. ``stage``: what the server is doing."""

Phase = Literal["start", "load", "capture", "serve"]
"""How far a server has come."""

CAUSES: Mapping[str, str] = {
    "arch_kernel_unsupported": "no kernel for this GPU generation exists in this library version",
    "arch_not_in_binary": "kernels exist in source, but the binary was not built for this GPU",
    "bad_flag_or_env": "an unknown flag, a malformed value, an inherited variable",
    "checkpoint_format_mismatch": "readable files, but layout, names or container are not what the loader wants",
    "collective_hang": "GPUs or processes wait for each other",
    "device_or_process_setup": "wrong visible devices, ordinal, or way of starting processes",
    "driver_cuda_mismatch": "the driver is older than, or hidden by, the CUDA libraries",
    "engine_bug": "an assertion or regression inside the engine; works on the neighbouring version",
    "external_kill_or_probe": "an orchestrator or a user ended it",
    "gpu_hardware_fault": "the device is defective: repeat elsewhere",
    "gpu_memory_taken_by_others": "another process holds the memory",
    "gpu_oom_capture": "out of GPU memory in the profile run, warm-up or graph capture",
    "gpu_oom_load": "out of GPU memory while loading weights or creating the first buffers",
    "gpu_oom_runtime": "out of GPU memory under load, after readiness",
    "gpu_system_not_ready": "fabric manager, device nodes or runtime are not up",
    "host_limits": "shared memory, threads, file handles, locked memory, disk",
    "host_oom_kill": "the kernel ended a process for want of RAM",
    "incompatible_features": "two flags, or a flag and the model, are not implemented together",
    "kernel_memory_fault": "a kernel touched memory that is not its own",
    "kv_cache_too_small": "the weights fit, the KV cache of one longest request does not",
    "missing_dependency": "a Python package or header is absent, or of a version that does not fit",
    "model_arch_unsupported": "the engine does not know the type of the model",
    "model_files": "weights or configuration missing, gated, cut off, or the hub cannot be reached",
    "native_library_mismatch": "a shared library is missing, or its interface is another",
    "network_port_or_interface": "a port is taken, or the interface or address is wrong",
    "parallel_shape_constraint": "a dimension does not divide under this parallel size, or violates a kernel's tile",
    "remote_code_or_tokenizer": "needs trust_remote_code, or a tokenizer that cannot be built here",
    "slow_fallback": "it runs, on a slower path",
    "slow_start_timeout": "a healthy but slow start that exceeds a fixed budget",
    "toolchain_too_old": "ptxas, nvcc or Triton is too old for the GPU or for a flag",
    "undetermined_process_death": "only secondary lines are there: the cause is not in this log",
}
"""The failure taxonomy: id to meaning."""

MAY_BE_HARD = frozenset(
    {
        "arch_kernel_unsupported",
        "incompatible_features",
        "model_arch_unsupported",
        "parallel_shape_constraint",
        "slow_fallback",
    }
)
"""Classes that can be a dead end; in all others a setting, a package, a driver or an administrator changes it."""

EXTERNAL = frozenset(
    ["external_kill_or_probe", "gpu_hardware_fault", "gpu_memory_taken_by_others", "gpu_system_not_ready"]
)
"""Classes that no change set is to blame for."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the change set and what speaks for its guilt.

    Attributes:
        member: The member, as it is described.
        sure: From 0, cleared, to 1, guilty.
        evidence: What says so.
    """

    member: str
    sure: float
    evidence: str


class RunnerUp(msgspec.Struct, frozen=True, kw_only=True):
    """Another line of the log that could have been the cause.

    Attributes:
        cause: Id of the failure taxonomy.
        line: The line.
        line_number: Its number, from 1.
        why_not: Why another one was preferred.
    """

    cause: str
    line: str
    line_number: int
    why_not: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Root cause read from a log.

    Attributes:
        cause: Id of the failure taxonomy, such as ``incompatible_features``; ``unknown`` if the reader abstains.
        line: The decisive line, as it stands in the log.
        line_number: Its number, from 1; 0 if there is none.
        component: Part that failed, such as ``llama.cpp``.
        hard: No setting, package or driver changes the outcome within ``scope``.
        scope: What the failure is bound to, in words.
        remedy: What to do; for an abstention, what to collect.
        confidence: From 0 to 1.
        abstained: The reader found no cause it would stand for.
        member: Guilty members of the change set, joined by ``and``; empty if unknown.
        flags: Flags that the failure is about, in one spelling each.
        rule: Id of the rule, such as ``nccl/shm-full``; empty if none fits.
        retest: What would make it worth another try.
        window: The lines around the decisive one, as they stand in the log.
        window_start: Number of the first line of the window; 0 if there is none.
        process: Tag of the process that wrote the line, such as ``Worker_TP1 pid=761``; empty if it has none.
        times: How often the log says it.
        starts: Starts of the server that the log holds.
        others: The runners-up, the next best first.
        frames: Files of the failing call stack, the innermost last.
        env: Variables that the failure is about.
        about: Words that tell what the failure is about, to find the member that brought it in.
        conflict: It is hard for a change set that itself sets all of ``flags``.
        suspects: Members of the change set, the likeliest first.
        sure: How sure it is that ``member`` is guilty, from 0 to 1.
        next: What to do next, one sentence each.
    """

    cause: str
    line: str = ""
    line_number: int = 0
    component: str = ""
    hard: bool = False
    scope: str = ""
    remedy: str = ""
    confidence: float = 0.0
    abstained: bool = False
    member: str = ""
    flags: tuple[str, ...] = ()
    rule: str = ""
    retest: str = ""
    window: tuple[str, ...] = ()
    window_start: int = 0
    process: str = ""
    times: int = 0
    starts: int = 1
    others: tuple[RunnerUp, ...] = ()
    frames: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    conflict: bool = False
    suspects: tuple[Suspect, ...] = ()
    sure: float = 0.0
    next: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        """Layer of the stack that the rule belongs to, such as ``nccl``."""
        return self.rule.partition("/")[0]


class LogRule(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What one kind of line in a log means.

    Attributes:
        id: In its file a name that is unique there; once it is read with its layer, such as ``nccl/shm-full``.
        match: Texts of which one must stand in the line; a single one needs no list. ``*`` stands for anything, case
            does not matter, and a text begins and ends at whole words unless a star touches them.
        unless: Texts that must not stand in the line.
        role: ``cause``, ``warning`` (explains a failure that another line reports), ``late`` (a symptom with a class of
            its own, such as a watchdog), ``wrapper`` (says only that something else failed), ``silent`` (the server
            comes up, a feature is not in force), ``generic`` (an exception whose text tells little) or ``stage`` (what
            the server is doing).
        cause: Class of the failure ([list](causes.md)); a wrapper has none, a stage only if a log that ends in it tells
            of a failure.
        component: Part that failed; empty takes the file's.
        hard: No setting, package or driver changes the outcome within ``scope``.
        conflict: Fixable, but a dead end for a change set that itself sets all of ``flags``.
        scope: What the failure is bound to: GPU generation, version, pair of features.
        remedy: What to do; of a wrapper, what to collect.
        retest: What would make it worth another try; a hard rule must say so.
        confidence: From 0 to 1; 0 leaves it to the role.
        explains: Rules (``layer/id``) or classes that this line is the cause of, where a log has both.
        phase: For a stage, how far the server has come: ``start``, ``load``, ``capture`` or ``serve``.
        phases: Phase to the class that it makes of this failure.
        flags: Flags that the failure is about.
        env: Variables that the failure is about.
        about: Words that tell what it is about, to find the member of a change set that brought it in.
        examples: Lines that the rule finds, at least one.
        counterexamples: Lines that look alike and that it must not find.
    """

    id: str
    match: tuple[str, ...]
    unless: tuple[str, ...] = ()
    role: Role = "cause"
    cause: str = ""
    component: str = ""
    hard: bool = False
    conflict: bool = False
    scope: str = ""
    remedy: str = ""
    retest: str = ""
    confidence: float = 0.0
    explains: tuple[str, ...] = ()
    phase: Phase | None = None
    phases: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns of ``match``."""
        return tuple(Pattern(text) for text in self.match)

    @cached_property
    def exceptions(self) -> tuple[Pattern, ...]:
        """The patterns of ``unless``."""
        return tuple(Pattern(text) for text in self.unless)

    def finds(self, line: str) -> bool:
        """Whether a line is one that the rule is about."""
        return self.finds_by(self.patterns, line, line.lower())

    def finds_by(self, patterns: Iterable[Pattern], line: str, lowered: str) -> bool:
        """Whether a line is one that the rule is about, as some of its patterns say."""
        found = any(pattern.finds(line, lowered) for pattern in patterns)
        return found and not any(pattern.finds(line, lowered) for pattern in self.exceptions)
