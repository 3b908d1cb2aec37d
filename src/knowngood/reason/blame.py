"""Which member of a change set is guilty of a failure, from the evidence, and how sure that is.

A server that came up before the change and does not come up with it was stopped by the change, or by something from
outside. What links a member to the failure: the decisive line names it; the failing call lies in a file that it edits;
the rule says that the failure is about its flag or variable; it speaks of the very thing that failed; it tunes the
layer that failed. A member that tunes another layer than those in the failing call stack is cleared.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

import msgspec

from knowngood.model.change import Change, Edit, Env, File, Flag, Patch, Pin, Setting, describe
from knowngood.model.diagnosis import EXTERNAL, Diagnosis, Suspect
from knowngood.model.launch import spellings

NAMED, INNERMOST, ABOUT, CALLED, SPEAKS, ALONE, LAYER = 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6
NOTHING, CLEARED = 0.2, 0.05
"""How sure each kind of evidence makes that a member is guilty."""
GUILTY = 0.5
"""A member above this is held guilty."""
SURE = 0.7
"""From here on the verdict on the members is acted upon: the others are cleared. Below, `isolate` decides."""

LAYERS: Mapping[str, tuple[str, ...]] = {
    "nccl": ("NCCL_",),
    "vllm": ("VLLM_",),
    "sglang": ("SGLANG_", "SGL_"),
    "trtllm": ("TRTLLM_", "TLLM_"),
    "flashinfer": ("FLASHINFER_",),
    "triton": ("TRITON_", "TORCHINDUCTOR_", "TORCH_COMPILE_"),
    "cuda": ("CUDA_", "PYTORCH_", "TORCH_CUDA_", "NVIDIA_"),
    "llamacpp": ("LLAMA_", "GGML_"),
    "os": ("OMP_", "MALLOC_", "LD_", "KMP_"),
}
"""Layer of the stack to the beginnings of its variables' names."""

DIFF_PATH = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?(\S+)", re.MULTILINE)
WORDS = re.compile(r"[a-z][a-z0-9]+")
PATH_PARTS = 3
"""Last parts of two paths that must agree: the same file has another root in a container."""


def blame(diagnosis: Diagnosis, changes: Sequence[Change], *, aliases: Mapping[str, str] | None = None) -> Diagnosis:
    """Name the guilty members of a change set.

    Args:
        diagnosis: What the log of a candidate that failed says; its baseline came up.
        changes: The members.
        aliases: Spelling of a flag to its canonical spelling, as the engine declares them.

    Returns:
        The diagnosis with ``suspects``, and with ``member`` and ``sure`` if the evidence is against some; ``next`` says
        what to try: the cleared members by themselves, or `isolate` where the evidence does not decide. A conflict of
        flags that the set itself makes is hard.
    """
    if not changes or diagnosis.cause in EXTERNAL:
        return diagnosis
    found = [(change, *weigh(change, diagnosis, aliases or {})) for change in changes]
    if len(changes) == 1 and not diagnosis.abstained and found[0][1] < ALONE:
        found = [(changes[0], ALONE, "it is the only change, and the baseline comes up without it")]
    found.sort(key=lambda one: -one[1])
    suspects = tuple(Suspect(member=describe(change), sure=sure, evidence=why) for change, sure, why in found)
    guilty = () if diagnosis.abstained else tuple(one for one in suspects if one.sure > GUILTY)
    sure = guilty[0].sure if guilty else 0.0
    return msgspec.structs.replace(
        diagnosis,
        suspects=suspects,
        member=" and ".join(one.member for one in sorted(guilty, key=lambda one: place(one, changes))),
        sure=sure,
        hard=diagnosis.hard or (diagnosis.conflict and sets_all(diagnosis.flags, changes, aliases or {})),
        next=tuple(advice(suspects, guilty, sure)),
    )


def place(suspect: Suspect, changes: Sequence[Change]) -> int:
    """Where a suspect stands in the change set."""
    return [describe(change) for change in changes].index(suspect.member)


def advice(suspects: Sequence[Suspect], guilty: Sequence[Suspect], sure: float) -> Iterator[str]:
    """What to do next about a change set that failed."""
    if len(suspects) == 1:
        return
    if sure < SURE:
        yield "`knowngood isolate` finds out which member it was: the evidence does not decide"
        return
    cleared = [one.member for one in suspects if one not in guilty]
    if cleared:
        yield f"try by itself, it was not tested: {', '.join(cleared)}"


def sets_all(flags: Sequence[str], changes: Sequence[Change], aliases: Mapping[str, str]) -> bool:
    """Whether a change set itself sets all of some flags."""
    mine = {canonical(change.flag, aliases) for change in changes if isinstance(change, Flag)}
    return bool(flags) and {canonical(flag, aliases) for flag in flags} <= mine


def canonical(flag: str, aliases: Mapping[str, str]) -> str:
    """The one spelling of a flag."""
    return aliases.get(flag, flag)


def weigh(change: Change, diagnosis: Diagnosis, aliases: Mapping[str, str]) -> tuple[float, str]:
    """The strongest evidence against a member: how sure, and what."""
    return max(evidence(change, diagnosis, aliases), default=(NOTHING, "nothing speaks for or against it"))


def evidence(change: Change, diagnosis: Diagnosis, aliases: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Everything that speaks for a member's guilt, or against it."""
    name = next((name for name in names(change, aliases) if stands_in(name, diagnosis.line)), None)
    if name is not None:
        yield NAMED, f"the line names {name}"
    yield from calls(change, diagnosis.frames)
    if isinstance(change, Flag) and canonical(change.flag, aliases) in {
        canonical(flag, aliases) for flag in diagnosis.flags
    }:
        yield ABOUT, f"the failure is about {change.flag}"
    if isinstance(change, Env) and change.name in diagnosis.env:
        yield ABOUT, f"the failure is about {change.name}"
    shared = sorted(words(own_text(change)) & set(diagnosis.about))
    if shared:
        yield SPEAKS, f"it speaks of {', '.join(shared)}, which the failure is about"
    layer = layer_of(change)
    if layer and layer == diagnosis.layer:
        yield LAYER, f"it tunes {layer}, the layer that failed"
    elif layer and diagnosis.frames and not any(layer in frame.lower() for frame in diagnosis.frames):
        yield CLEARED, f"it tunes {layer}, which is not in the failing call stack"


def stands_in(name: str, line: str) -> bool:
    """Whether a name stands in a line, as a whole."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line) is not None


def names(change: Change, aliases: Mapping[str, str]) -> Iterator[str]:
    """What a line can call a member: flag, variable, file, a value too special for a coincidence."""
    match change:
        case Flag():
            for flag in dict.fromkeys((change.flag, *spellings(change.flag, aliases))):
                yield flag
                bare = flag.lstrip("-")
                if "-" in bare:
                    yield bare.replace("-", "_")
                    yield bare
            if change.value is not None and any(mark in change.value for mark in "/.:"):
                yield change.value
        case Env():
            yield change.name
        case Edit() | File():
            yield change.path
            yield change.path.rpartition("/")[2]
        case Patch():
            yield change.root
            yield from patched(change)
        case Pin():
            yield change.package
            yield change.package.replace("-", "_")
        case Setting():
            yield change.name
        case _:
            assert_never(change)


def patched(change: Patch) -> Iterator[str]:
    """Files that a patch alters."""
    found = DIFF_PATH.findall(change.diff.decode(errors="replace"))
    yield from dict.fromkeys(path for path in found if path != "/dev/null")


def calls(change: Change, frames: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Evidence from the failing call stack: a call lies in a file that the member alters, or in its package."""
    match change:
        case Edit() | File():
            altered: Iterable[str] = (change.path.removeprefix("python:"),)
        case Patch():
            altered = patched(change)
        case Pin():
            package = f"/{change.package.replace('-', '_').lower()}/"
            if any(package in frame.lower() for frame in frames):
                yield CALLED, f"the failing call stack runs through {change.package}"
            return
        case Env() | Flag() | Setting():
            return
        case _:
            assert_never(change)
    for path in altered:
        hits = [at for at, frame in enumerate(frames) if is_same_file(frame, path)]
        if hits:
            is_last = hits[-1] == len(frames) - 1
            where = "fails in" if is_last else "runs through"
            yield INNERMOST if is_last else CALLED, f"the failing call stack {where} {path.rpartition('/')[2]}"


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths are of one file, seen from different roots."""
    mine, theirs = one.split("/"), other.split("/")
    parts = min(PATH_PARTS, len(mine), len(theirs))
    return mine[-parts:] == theirs[-parts:]


def own_text(change: Change) -> str:
    """What a member says: the text that it changes, names and values."""
    match change:
        case Edit():
            return f"{change.path} {change.find} {change.replace}"
        case File():
            return f"{change.path} {change.content.decode(errors='replace')}"
        case Patch():
            return change.diff.decode(errors="replace")
        case Env() | Setting():
            return f"{change.name} {change.value or ''}"
        case Flag():
            return f"{change.flag} {change.value or ''}"
        case Pin():
            return change.requirement
        case _:
            assert_never(change)


def words(text: str) -> set[str]:
    """Words of a text in small letters; parts of a compound name count, too."""
    return set(WORDS.findall(text.lower().replace("_", " ")))


def layer_of(change: Change) -> str:
    """Layer of the stack that a variable tunes; empty for everything else."""
    if not isinstance(change, Env):
        return ""
    return next((layer for layer, starts in LAYERS.items() if change.name.startswith(starts)), "")
