"""What NCCL says of its variables and its choices, in its own log.

Source: NCCL 2.30.7, ``src/misc/param.cc``, ``src/graph``, ``src/enqueue.cc``, ``src/transport``.
"""

import re
from collections import Counter

import msgspec

from knowngood.engines.signs import Said
from knowngood.model.change import Env
from knowngood.model.launch import LaunchSpec

DEBUG, SUBSYSTEMS, FILE = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"
ITS_OWN = frozenset({DEBUG, SUBSYSTEMS, FILE, "NCCL_DEBUG_TIMESTAMP_FORMAT", "NCCL_DEBUG_TIMESTAMP_LEVELS"})
QUIET = "INIT,ENV,P2P,SHM,GRAPH"
"""Subsystems that write while a communicator is made, and nothing for a collective."""

INFO = re.compile(r"NCCL INFO ")
TRANSPORT = re.compile(r"NCCL INFO .* via (P2P|SHM|NET)\b")
CHOICE = re.compile(r"NCCL INFO AllReduce: (\d+) Bytes -> Algo (\w+) proto (\w+)")
LISTED = {"NCCL_ALGO": 2, "NCCL_PROTO": 3}
"""Variable to the part of a choice that it restricts."""


def with_nccl_log(spec: LaunchSpec) -> LaunchSpec:
    """A launch that sets NCCL variables, with the log in which NCCL says what became of them.

    Nothing is added where the user has set ``NCCL_DEBUG``, or no other NCCL variable.
    """
    tuned = [name for name in spec.env if name.startswith("NCCL_") and name not in ITS_OWN]
    if not tuned or DEBUG in spec.env or DEBUG in spec.unset:
        return spec
    return msgspec.structs.replace(spec, env={**spec.env, DEBUG: "INFO", SUBSYSTEMS: QUIET})


def said_by_nccl(change: Env, environ: dict[str, str], log: str) -> Said:
    """What NCCL's log says of a variable.

    Args:
        change: The member.
        environ: Environment of the live process.
        log: The server's log, which holds NCCL's unless that goes to a file.
    """
    if not change.name.startswith("NCCL_") or change.name in ITS_OWN or change.value is None:
        return None
    if environ.get(DEBUG, "").upper() not in {"INFO", "TRACE"} or FILE in environ:
        return None
    if not INFO.search(log):
        return False, "NCCL never started: its log is on, and has no line"
    said = re.search(rf"NCCL INFO {change.name} set by environment to (.+?)\.?$", log, re.MULTILINE)
    if said is None:
        return False, f"NCCL's log names other variables, and never {change.name}: it has not read it"
    if not is_same(said[1], change.value):
        return False, f"NCCL says {change.name} is {said[1]}"
    return contradicted(change, log) or (True, f"NCCL says {change.name} set by environment to {said[1]}{chosen(log)}")


def is_same(said: str, asked: str) -> bool:
    """Whether two spellings are one value."""
    return said.strip().lower() == asked.strip().lower()


def contradicted(change: Env, log: str) -> Said:
    """What NCCL did that a variable forbids."""
    if change.name == "NCCL_P2P_DISABLE" and change.value == "1" and "P2P" in transports(log):
        return False, "NCCL says channels go via P2P all the same"
    at = LISTED.get(change.name)
    names = (change.value or "").upper()
    # "^" excludes, ":" restricts one function: neither is judged here.
    if at is None or any(mark in names for mark in "^:;"):
        return None
    other = next((found for found in CHOICE.finditer(log) if found[at].upper() not in names.split(",")), None)
    return None if other is None else (False, f"NCCL chose otherwise: {other[0].removeprefix('NCCL INFO ')}")


def transports(log: str) -> Counter[str]:
    """How many channels go via which transport."""
    return Counter(found[1] for found in TRANSPORT.finditer(log))


def chosen(log: str) -> str:
    """Transports, and what all-reduces ran as, as the end of a sentence."""
    parts = [f"{count} channels via {name}" for name, count in transports(log).most_common()]
    sizes = {(int(found[1]), found[2], found[3]) for found in CHOICE.finditer(log)}
    parts += [
        f"all-reduce of {size} bytes by {algorithm} {protocol}" for size, algorithm, protocol in sorted(sizes)[:3]
    ]
    return f"; {', '.join(parts)}" if parts else ""
