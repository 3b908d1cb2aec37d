"""Back to known-good: after a crash, and after a keep that somebody wants to take back."""

from collections.abc import Sequence

import msgspec

from knowngood.errors import HostError, UsageError
from knowngood.flow.bench import Site
from knowngood.flow.preflight import lab_prefix, left_over
from knowngood.model.events import KeepUndone, Recovered
from knowngood.ports import Transaction
from knowngood.reason.edits import digest
from knowngood.reason.fold import Trial

SAMPLES = ".jsonl.gz"


def holder(site: Site) -> str:
    """Who holds the host now, in words; empty if nobody does."""
    return site.host.holder()


def drifted(site: Site) -> tuple[str, ...]:
    """Managed files that are not what the baseline says."""
    baseline = site.memory.state.baseline
    if baseline is None:
        return ()
    return tuple(path for path, known in baseline.files.items() if current_digest(site, path) != known)


def current_digest(site: Site, path: str) -> str:
    """SHA-256 of what stands at a path; empty for no file, a word for what is no regular file."""
    try:
        return digest(site.host.look(path)) or ""
    except HostError:
        return "unreadable"


def recover(site: Site) -> tuple[str, ...]:
    """End leftover servers, undo leftover edits, close what never ended.

    Args:
        site: The lab and its host.

    Returns:
        What that took, one line each; empty if the host was at known-good.

    Raises:
        Busy: Somebody works on the host: nothing is left over then.
        RevertFailed: A file was edited by somebody else since; it was left alone.
    """
    with site.host.lease(purpose=f"recover in {site.config.root}"):
        state = site.memory.state
        did: list[str] = []
        for process in site.host.strays():
            process.stop(grace_s=site.stop_grace_s)
            did.append(f"ended a server of ours, process {process.pid}")
        wanted = state.baseline.transactions if state.baseline else ()
        settled = site.host.journal.recover(keep=wanted)
        settled = (*settled, *take_back_unrecorded(site, wanted))
        did += [f"file edits {tx.id}: now {tx.state}" + "".join(f"; {note}" for note in tx.notes) for tx in settled]
        did += [f"{name} was cut off; {rescue(site, name)}" for name in state.unfinished]
        if did:
            site.memory.record(Recovered(at=site.now(), did=tuple(did)))
        return (*did, *(f"still left over: {line}" for line in left_over(site)))


def take_back_unrecorded(site: Site, wanted: Sequence[str]) -> list[Transaction]:
    """Revert keeps of this lab that were cut off before the event that makes them count, newest first."""
    return [
        site.host.journal.revert(tx.id)
        for tx in reversed(site.host.journal.transactions())
        if tx.state == "kept" and tx.id.startswith(lab_prefix(site)) and tx.id not in wanted
    ]


def rescue(site: Site, run: str) -> str:
    """Keep the raw samples of a launch that was cut off: requests that had finished stay readable."""
    state = site.memory.state
    launches = state.runs[run].launches if run in state.runs else state.trials[run].launches
    known = {record.samples for launch in launches for record in launch.runs}
    cut = [site.artifacts.put(path) for path in sorted(site.scratch.glob(f"*{run}-*{SAMPLES}")) if path.stat().st_size]
    new = [one[:12] for one in cut if one not in known]
    return f"{len(launches)} launches are kept" + (
        f", and finished requests as artifact {', '.join(new)}" if new else ""
    )


def undo(site: Site) -> Trial:
    """Take the last keep back.

    Args:
        site: The lab and its host.

    Returns:
        The trial whose keep was taken back.

    Raises:
        UsageError: Nothing is kept.
        RevertFailed: A file was edited by somebody else since; it was left alone.
    """
    with site.host.lease(purpose=f"undo in {site.config.root}"):
        state = site.memory.state
        now = state.baseline
        if now is None or not now.kept:
            raise UsageError("nothing is kept", hint="`knowngood plan` shows every trial and its verdict")
        trial = state.trials[now.kept[-1]]
        before = next(one for one in reversed(state.baselines) if one.kept == now.kept[:-1])
        for tx in reversed(now.transactions):
            if tx not in before.transactions:
                site.host.journal.revert(tx)
        restored = msgspec.structs.replace(before, version=now.version + 1, facts=now.facts)
        site.memory.record(KeepUndone(at=site.now(), trial=trial.id, baseline=restored))
        return trial
