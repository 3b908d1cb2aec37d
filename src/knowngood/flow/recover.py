"""Back to known-good: after a crash, and after a keep that somebody wants to take back."""

from collections.abc import Collection, Sequence

import msgspec

from knowngood.errors import UsageError
from knowngood.flow.bench import Site
from knowngood.flow.managed import changed_files
from knowngood.flow.preflight import (
    capture_prefix,
    changed_by_keep,
    is_orphan,
    keep_and_before,
    left_over,
    undo_cut_off,
)
from knowngood.flow.settings import drifted_settings
from knowngood.model.baseline import Baseline
from knowngood.model.events import KeepUndone, Recovered
from knowngood.ports import Host, Transaction, Tuning
from knowngood.reason.records import Trial

SAMPLES = ".jsonl.gz"


def holder(site: Site) -> str:
    """Who holds the host now, in words; empty if nobody does."""
    return site.host.holder()


def drifted(site: Site) -> tuple[str, ...]:
    """Managed files and kept settings that are not what the baseline says."""
    files = (change.path for change in changed_files(site, thorough=False))
    return (*files, *(f"setting {name}" for name in drifted_settings(site)))


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
    found = left_over(site)
    with site.host.lease(purpose=f"recover in {site.config.root}"):
        state = site.memory.state
        # Whoever takes a lease that has lapsed does the watcher's work first.
        lapsed = set(found) - set(left_over(site))
        did = [f"{line}: taken back as the lease lapsed" for line in found if line in lapsed]
        did += end_strays(site.host, grace_s=site.stop_grace_s)
        wanted = state.baseline.transactions if state.baseline else ()
        tuned = state.baseline.setting_transactions if state.baseline else ()
        turned = site.host.settings.recover(keep=tuned)
        did += [f"settings {tx.id}: now {tx.state}" + "".join(f"; {note}" for note in tx.notes) for tx in turned]
        settled = site.host.journal.recover(keep=wanted)
        did += take_back_unrecorded(site, (*wanted, *tuned))
        did += [f"file edits {tx.id}: now {tx.state}" + "".join(f"; {note}" for note in tx.notes) for tx in settled]
        for tx in site.host.journal.transactions():
            if tx.state == "kept" and tx.id.startswith(capture_prefix(site)):
                site.host.journal.forget(tx.id)
                did.append(f"capture {tx.id}: finished; the edits are in their experiment")
        did += [f"{name} was cut off; {rescue(site, name)}" for name in state.unfinished]
        did += finish_undo(site)
        if did:
            site.memory.record(Recovered(at=site.now(), did=tuple(did)))
        return (*did, *(f"still left over: {line}" for line in left_over(site)))


def recover_without_memory(host: Host, *, grace_s: float) -> tuple[str, ...]:
    """Bring a host back to known-good by its own journal alone, where a lab's memory cannot be read.

    What was kept stays; which of it the lab has recorded nobody can say.

    Args:
        host: The machine.
        grace_s: Time that a server gets to end by itself, in seconds.

    Returns:
        What that took, one line each.

    Raises:
        Busy: Somebody works on the host.
    """
    found = left_without_memory(host)
    with host.lease(purpose="recover without a lab's memory"):
        did = end_strays(host, grace_s=grace_s)
        did += [f"settings {tx.id}: now {tx.state}" for tx in host.settings.recover()]
        did += [f"file edits {tx.id}: now {tx.state}" for tx in host.journal.recover()]
        gone = set(found) - set(left_without_memory(host))
        return tuple(did or (f"{line}: taken back as the lease lapsed" for line in found if line in gone))


def left_without_memory(host: Host) -> tuple[str, ...]:
    """What is left over on a host as far as its own journal tells, one line each."""
    return (
        *(f"file edits {tx.id} are {tx.state}" for tx in host.journal.transactions() if tx.state != "kept"),
        *(f"settings {tx.id} are {tx.state}" for tx in host.settings.transactions() if tx.state != "kept"),
        *(f"a server of ours still runs as process {process.pid}" for process in host.strays()),
    )


def end_strays(host: Host, *, grace_s: float) -> list[str]:
    """End servers of ours that nobody looks after; say which."""
    did: list[str] = []
    for process in host.strays():
        process.stop(grace_s=grace_s)
        did.append(f"ended a server of ours, process {process.pid}")
    return did


def finish_undo(site: Site) -> list[str]:
    """Record an undo that was cut off after the files were back; say which."""
    trial = undo_cut_off(site, site.host.journal.transactions())
    if not trial:
        return []
    now, before = keep_and_before(site.memory.state)
    touched = changed_by_keep(now, before)
    site.memory.record(KeepUndone(at=site.now(), trial=trial, baseline=restored_by_undo(now, before, touched)))
    return [f"undo of {trial} was cut off; it is done"]


def take_back_unrecorded(site: Site, wanted: Collection[str]) -> list[str]:
    """Revert keeps of this lab that were cut off before the event that makes them count, newest first."""

    def orphans(found: Sequence[Transaction | Tuning]) -> list[str]:
        return [tx.id for tx in reversed(found) if tx.state == "kept" and is_orphan(site, tx.id, wanted)]

    settings, journal = site.host.settings, site.host.journal
    unset = [f"settings {tx}: now {settings.revert(tx).state}" for tx in orphans(settings.transactions())]
    return [*unset, *(f"file edits {tx}: now {journal.revert(tx).state}" for tx in orphans(journal.transactions()))]


def rescue(site: Site, run: str) -> str:
    """Keep the raw samples of a launch that was cut off: requests that had finished stay readable."""
    launches = site.memory.state.launches(run)
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
        _, before = keep_and_before(state)
        for tx in reversed(now.setting_transactions):
            if tx not in before.setting_transactions:
                site.host.settings.revert(tx)
        touched: set[str] = set()
        for tx in reversed(now.transactions):
            if tx not in before.transactions:
                touched.update(site.host.journal.revert(tx).files)
        restored = restored_by_undo(now, before, touched)
        site.memory.record(KeepUndone(at=site.now(), trial=trial.id, baseline=restored))
        return trial


def restored_by_undo(now: Baseline, before: Baseline, touched: Collection[str]) -> Baseline:
    """The known-good state once the last keep is taken back."""
    return msgspec.structs.replace(
        before,
        version=now.version + 1,
        facts=now.facts,
        files=files_after_undo(now, before, touched),
        roots=now.roots,
    )


def files_after_undo(now: Baseline, before: Baseline, touched: Collection[str]) -> dict[str, str]:
    """Managed files once a keep is taken back: what a later baseline has recorded of other files stays true.

    Args:
        now: The baseline with the keep.
        before: The one before it.
        touched: Files that the keep had changed.
    """
    files = {path: known if path in touched else now.files.get(path, known) for path, known in before.files.items()}
    if now.roots != before.roots:
        # The later listing saw the kept bytes; what stands there again is what stood there first.
        files.update({path: now.originals[path] for path in touched if path not in files and path in now.originals})
    return files
