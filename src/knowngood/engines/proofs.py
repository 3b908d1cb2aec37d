"""Effect proofs that need nothing but the operating system: environment, arguments, files."""

import hashlib
import os.path
import re
from collections.abc import Mapping
from typing import assert_never

from knowngood.engines.environment import prove_env
from knowngood.engines.loaded import STALE, loaded_below, prove_loaded
from knowngood.model.change import PYTHONPATH, Change, Edit, Env, File, Flag, Patch, Pin, Setting, describe
from knowngood.model.evidence import Proof
from knowngood.model.launch import flag_values, spellings
from knowngood.ports import Observed

PYTHON = "python:"
"""Prefix of paths that the server's own interpreter resolves."""

SHORT = 12
"""Digits of a digest that are shown."""


def prove_by_process(change: Change, observed: Observed, *, aliases: Mapping[str, str], workers: str = "") -> Proof:
    """Whether a member reached the process; what the program made of it is another question.

    Args:
        change: The member.
        observed: What the running server showed.
        aliases: Spelling of a flag to its canonical spelling.
        workers: Regular expression of the titles of processes that a variable must have reached.
    """
    holds: bool | None
    match change:
        case Env() | Flag() | Pin() if not observed.inside.pids:
            holds, evidence = None, "the program has ended, its arguments and environment are gone"
        case Env():
            holds, evidence = prove_env(change, observed, workers=workers)
        case Flag():
            holds, evidence = prove_argv(change, observed, spellings(change.flag, aliases))
        case Edit() | File():
            holds, evidence = prove_file(change, observed)
        case Patch():
            holds, evidence = prove_patch(change, observed)
        case Pin():
            holds, evidence = prove_pin(change, observed)
        case Setting():
            holds, evidence = prove_setting(change, observed)
        case _:
            assert_never(change)
    return Proof(member=describe(change), holds=holds, evidence=evidence)


def prove_argv(change: Flag, observed: Observed, names: tuple[str, ...]) -> tuple[bool, str]:
    """Look at the arguments of the live process; the last occurrence of a flag counts."""
    values = flag_values(observed.inside.argv, names)
    if change.remove:
        return not values, f"{change.flag} {'is still' if values else 'is not'} among the arguments"
    if not values:
        return False, f"{change.flag} is not among the arguments of process {leader(observed)}"
    found = change.value in values if change.append else values[-1] == change.value
    shown = change.flag if values[-1] is None else f"{change.flag} {values[-1]}"
    return found, f"{shown} among the arguments of process {leader(observed)}"


def prove_file(change: Edit | File, observed: Observed) -> tuple[bool | None, str]:
    """Compare a file at launch with the change, and look for the argument that names it."""
    path, digest = next(
        ((path, digest) for path, digest in observed.files.items() if is_at(path, change.path)), ("", "")
    )
    if not digest:
        return False, f"{change.path} did not stand there at launch"
    if isinstance(change, File) and digest != hashlib.sha256(change.content).hexdigest():
        return False, f"{change.path} had other bytes at launch: SHA-256 {digest[:SHORT]}…"
    stood = f"{os.path.basename(path)} stood there at launch, SHA-256 {digest[:SHORT]}…"  # noqa: PTH119 - the host's path, not ours
    flag = flag_naming(path, observed.inside.argv)
    if flag:
        return True, f"{stood}, and the arguments name it: {flag}"
    loaded = prove_loaded(path, digest, observed)
    if loaded is not None:
        return loaded[0], f"{stood}; {loaded[1]}"
    return None, f"{stood}; no argument names it, so nothing tells whether it was read"


def prove_patch(change: Patch, observed: Observed) -> tuple[bool | None, str]:
    """Look for the patched files among those that stood there at launch, and for processes that have loaded any."""
    stood = {path: digest for path, digest in observed.files.items() if digest and is_under(path, change.root)}
    if not stood:
        return False, f"no file under {change.root} was patched at launch"
    told = {path: said for path, digest in stood.items() if (said := prove_loaded(path, digest, observed)) is not None}
    shown = f"{len(stood)} patched under {change.root} at launch"
    if not told:
        return None, f"{shown}; nothing tells whether they were read"
    loaded = [path for path, (holds, _) in told.items() if holds]
    # Of a patch for several platforms a server loads some files only; a stale one is wrong all the same.
    at = loaded[0] if loaded else next(iter(told))
    holds, evidence = next((said for said in told.values() if STALE in said[1]), told[at])
    return holds, f"{shown}; {len(loaded)} of them loaded; {os.path.basename(at)}: {evidence}"  # noqa: PTH119 - the same


def prove_pin(change: Pin, observed: Observed) -> tuple[bool, str]:
    """Look for the overlay in the live process's path, and at what its interpreter finds along that path."""
    first = observed.inside.environ.get(PYTHONPATH, "").split(":")[0]
    if not observed.overlay or first != observed.overlay:
        shown = first or "empty"
        return (
            False,
            f"{PYTHONPATH} of process {leader(observed)} starts with {shown}, not with the overlay of the pins",
        )
    seen = observed.pins.get(change.package)
    if seen is None:
        return False, f"{PYTHONPATH} starts with the overlay, but the interpreter finds no {change.package} in it"
    said = f"{PYTHONPATH} of process {leader(observed)} starts with the overlay, where the interpreter finds"
    said = f"{said} {change.package} {seen}"
    loaded = loaded_below(observed.overlay, observed.tops.get(change.package, ()), observed)
    if loaded is None or not is_version(seen, change.version):
        return is_version(seen, change.version), said
    return loaded[0], f"{said}; {loaded[1]}"


def is_version(seen: str, wanted: str) -> bool:
    """Whether a version is the one pinned; final zeros, and a local part that was not asked for, do not matter."""
    bare = seen if "+" in wanted else seen.partition("+")[0]
    return re.sub(r"(\.0)+$", "", bare.lower()) == re.sub(r"(\.0)+$", "", wanted.lower())


def prove_setting(change: Setting, observed: Observed) -> tuple[bool, str]:
    """Compare what the setting reads while the server runs."""
    seen = observed.settings.get(change.name)
    if seen is None:
        return False, f"{change.name} could not be read while the server ran"
    return seen == " ".join(change.value.split()), f"{change.name} reads {seen} while the server runs"


def is_at(path: str, named: str) -> bool:
    """Tell whether a path on the host is the named one; ``python:PKG/…`` is known by its end."""
    return path.endswith("/" + named.removeprefix(PYTHON)) if named.startswith(PYTHON) else path == named


def is_under(path: str, root: str) -> bool:
    """Tell whether a path on the host lies in the named directory."""
    folder = root.rstrip("/") + "/"
    return f"/{folder.removeprefix(PYTHON)}" in path if root.startswith(PYTHON) else path.startswith(folder)


def flag_naming(path: str, argv: tuple[str, ...]) -> str:
    """Arguments that name a file, by its absolute path or by the end of it; empty if none does."""
    for at, word in enumerate(argv):
        name, _, value = word.rpartition("=")
        if value and (value == path or path.endswith("/" + value.removeprefix("./"))):
            return word if name or at == 0 else f"{argv[at - 1]} {word}"
    return ""


def leader(observed: Observed) -> int:
    """Process id to name in evidence; 0 if the operating system told none."""
    return min(observed.inside.pids, default=0)
