"""Whether the processes that live have loaded a changed file, by what they said as they did (``flow/witness.py``)."""

from collections.abc import Mapping

from knowngood.model.process import Imported, LiveProcess, Witness
from knowngood.ports import Observed

STALE = "runs other code than the file holds"
TICK_S = 0.011
"""The kernel stamps the start of a process in hundredths of a second, rounded down."""


def prove_loaded(path: str, digest: str, observed: Observed) -> tuple[bool | None, str] | None:
    """Look for the live processes that run the code of a file.

    Args:
        path: The file on the host.
        digest: SHA-256 of its bytes at launch.
        observed: What the running server showed.

    Returns:
        Whether one does and none runs other code, and how that is known; None if nobody could tell.
    """
    witness = observed.witness
    if witness is None:
        return None
    if not path.endswith(".py"):
        return (True, "a live process has mapped it") if path in witness.mapped else None
    if not witness.interpreters:
        return None
    of_file = [one for one in witness.imported if one.path == path]
    live = those_asked(observed, witness)
    found = {pid: load for pid in live if (load := loaded_by(pid, live, witness, of_file)) is not None}
    stale = next((pid for pid, load in found.items() if load.sha256 != digest or not load.same), None)
    if stale is not None:
        return False, f"process {stale} ({name_of(live[stale])}) {STALE}"
    if found:
        return True, f"loaded by {names(list(found), live)}"
    if of_file:
        return None, f"loaded by process {of_file[-1].pid} alone, which has ended"
    return False, f"none of the {len(live)} processes has loaded it"


def those_asked(observed: Observed, witness: Witness) -> dict[int, LiveProcess]:
    """The live processes; of a program that has run to its end, all that ran Python."""
    processes = observed.inside.processes or [LiveProcess(pid=pid, title="ended") for pid in witness.interpreters]
    return {one.pid: one for one in processes}


def loaded_by(pid: int, live: Mapping[int, LiveProcess], witness: Witness, of_file: list[Imported]) -> Imported | None:
    """How a process came by a file: it has loaded it, or was forked from one that had."""
    begun = witness.interpreters.get(pid, 0.0)
    own = [one for one in of_file if one.pid == pid and one.at >= begun]
    until = float("inf")
    while not own and pid in live and pid not in witness.interpreters:
        until = min(until, live[pid].started_s + TICK_S)
        pid = live[pid].parent
        begun = witness.interpreters.get(pid, 0.0)
        own = [one for one in of_file if one.pid == pid and begun <= one.at <= until]
    return own[-1] if own else None


def loaded_below(folder: str, tops: tuple[str, ...], observed: Observed) -> tuple[bool, str] | None:
    """Whether a live process has loaded something of a package in an overlay.

    Args:
        folder: The overlay.
        tops: Names of the modules and directories that the package brings.
        observed: What the running server showed.

    Returns:
        Whether one has, and which; None if nobody could tell.
    """
    witness = observed.witness
    if witness is None or not witness.interpreters:
        return None
    live = those_asked(observed, witness)
    loads = [one for one in witness.imported if is_one_of(one.path, folder, tops)]
    found = [pid for pid in live if loaded_by(pid, live, witness, loads) is not None]
    if found:
        return True, f"{names(found, live)} loaded it from there"
    if any(is_one_of(path, folder, tops) for path in witness.mapped):
        return True, "a live process has mapped its library"
    return False, f"none of the {len(live)} processes has loaded anything of it"


def is_one_of(path: str, folder: str, tops: tuple[str, ...]) -> bool:
    """Whether a file lies in one of a directory's entries, or is one."""
    return path.startswith(f"{folder}/") and path[len(folder) + 1 :].partition("/")[0] in tops


def names(pids: list[int], live: Mapping[int, LiveProcess]) -> str:
    """Processes as they read in evidence: the last one by name, as workers are started last, and how many more."""
    more = f" and {len(pids) - 1} more" if len(pids) > 1 else ""
    return f"process {pids[-1]} ({name_of(live[pids[-1]])}){more}"


def name_of(process: LiveProcess) -> str:
    """A process's title, shortened."""
    return process.title[:40] or "?"
