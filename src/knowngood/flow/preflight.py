"""Everything checked before a byte changes."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from knowngood.config.lab import LoadTable
from knowngood.errors import Drift, NotFound, Quarantined, Refused, UsageError
from knowngood.flow.bench import Bench, Site
from knowngood.flow.caches import with_own_caches
from knowngood.flow.facts import MEASURE_ANEW, changed_since, host_facts
from knowngood.flow.journal import plan_edits
from knowngood.flow.managed import changed_files, known_files
from knowngood.flow.pins import Overlay, build_overlay, with_inherited_path
from knowngood.flow.settings import drifted_settings
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet
from knowngood.model.files import FileEdit
from knowngood.model.finding import Finding
from knowngood.model.hypothesis import Hypothesis, Sign
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Transaction
from knowngood.reason.edits import digest
from knowngood.reason.findings import dead_end
from knowngood.reason.fold import LabState
from knowngood.reason.sign import find_sign

SET_AGAIN = "set it as it was: `knowngood export` writes settings.sh, which does it"
HANDED_OVER = "somebody edited it: `knowngood capture` makes an experiment of that, `knowngood baseline` records it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """Both sides of a comparison.

    Attributes:
        baseline: How the known-good server is started.
        candidate: How the candidate is started.
        changes: The change set between them.
        edits: Its file edits, planned.
        overlay: Its pins, built.
        baseline_edits: Edits that the baseline's launches need: none, unless it is an earlier known-good state.
        sign: What shows that the change was reached.
    """

    baseline: LaunchSpec
    candidate: LaunchSpec
    changes: ChangeSet
    edits: tuple[FileEdit, ...] = ()
    overlay: Overlay | None = None
    baseline_edits: tuple[FileEdit, ...] = ()
    sign: Sign | None = None


def require_known_good(site: Site) -> None:
    """Refuse to work on a host that earlier work was cut off on.

    Raises:
        Quarantined: A transaction, a server or a trial is left over.
    """
    left = left_over(site)
    if left:
        raise Quarantined(
            f"earlier work was cut off: {'; '.join(left)}", hint="run `knowngood recover` first", left=left
        )


def require_no_drift(site: Site) -> None:
    """Refuse to compare anything with a known-good state that somebody has changed by hand.

    Raises:
        Drift: A managed file or kept setting is not what the baseline says.
    """
    tuned = drifted_settings(site)
    if tuned:
        raise Drift(f"{', '.join(tuned)}: not set as the baseline says", hint=SET_AGAIN, drift=tuned)
    drift = [change.path for change in changed_files(site, thorough=False)]
    if drift:
        what = drift[0] if len(drift) == 1 else f"{drift[0]} and {len(drift) - 1} more"
        raise Drift(f"{what}: not what the baseline says", hint=HANDED_OVER, drift=drift)


def require_same_host(bench: Bench, baseline: Baseline) -> None:
    """Refuse to compare anything with a baseline whose figures come from another kernel, driver or machine.

    Raises:
        Refused: The host has changed since.
    """
    changed = changed_since(baseline, host_facts(bench.host))
    if changed:
        raise Refused(changed, hint=MEASURE_ANEW)


def left_over(site: Site) -> tuple[str, ...]:
    """What earlier work left behind, one line each; empty if the host is at known-good."""
    baseline = site.memory.state.baseline
    kept = (*baseline.transactions, *baseline.setting_transactions) if baseline else ()
    journalled = site.host.journal.transactions()
    return (
        *(f"{name} never ended" for name in site.memory.state.unfinished),
        *(
            f"file edits {tx.id} are {tx.state}"
            for tx in journalled
            if tx.state != "kept" or tx.id.startswith(capture_prefix(site)) or is_orphan(site, tx.id, kept)
        ),
        *(
            f"settings {tx.id} ({', '.join(tx.values)}) are {tx.state}"
            for tx in site.host.settings.transactions()
            if tx.state != "kept" or is_orphan(site, tx.id, kept)
        ),
        *(f"a server of ours still runs as process {process.pid}" for process in site.host.strays()),
        *((f"the undo of {undone} was cut off",) if (undone := undo_cut_off(site, journalled)) else ()),
    )


def undo_cut_off(site: Site, known: Sequence[Transaction]) -> str:
    """Trial whose undo has put its files back and was cut off before the event that says so; empty if there is none.

    Args:
        site: The lab and its host.
        known: The journal's transactions.
    """
    state = site.memory.state
    if state.baseline is None or not state.baseline.kept:
        return ""
    now, before = keep_and_before(state)
    mine = set(now.transactions) - set(before.transactions)
    if not mine or mine & {tx.id for tx in known}:
        return ""
    shown = {path: digest(site.host.look(path)) or "" for path in changed_by_keep(now, before)}
    old = {path: before.files.get(path, now.originals.get(path, "")) for path in shown}
    return now.kept[-1] if shown == old else ""


def keep_and_before(state: LabState) -> tuple[Baseline, Baseline]:
    """The known-good state with its last keep, and the one without it; there must be one."""
    if state.baseline is None:
        raise AssertionError
    now = state.baseline
    return now, next(one for one in reversed(state.baselines) if one.kept == now.kept[:-1])


def changed_by_keep(now: Baseline, before: Baseline) -> set[str]:
    """Files that the last keep has changed."""
    known = {**now.originals, **before.files}
    return {path for path, content in now.files.items() if known.get(path, content) != content}


def is_orphan(site: Site, tx: str, kept: Collection[str]) -> bool:
    """Whether a kept transaction is one of this lab's that its baseline knows nothing of."""
    return tx.startswith(lab_prefix(site)) and tx not in kept


def capture_prefix(site: Site) -> str:
    """Start of the names of transactions that bring edits by hand back; they are forgotten at once, or by recover."""
    return f"capture-{lab_prefix(site)}"


def lab_prefix(site: Site) -> str:
    """Start of the names of this lab's launches and transactions: the journal serves all labs of a machine."""
    return hashlib.sha256(str(site.config.root).encode()).hexdigest()[:8] + "-"


def require_baseline(bench: Bench) -> Baseline:
    """Return the baseline, if it is the one that the lab file describes.

    Raises:
        UsageError: There is none, the lab file has changed since, or the benchmark client cannot measure it.
    """
    bench.load.require(bench.config.workloads)
    baseline = bench.memory.state.baseline
    if baseline is None:
        raise UsageError("this lab has no baseline yet", hint="run `knowngood baseline` first")
    if baseline.origin != bench.config.spec:
        raise UsageError(
            "[server] has changed since the baseline", hint="run `knowngood baseline` to record the new one"
        )
    if baseline.workloads != workload_digest(bench):
        raise UsageError(
            "[[workload]], [load] or [objective] has changed since the baseline",
            hint="run `knowngood baseline` to measure anew",
        )
    return baseline


def workload_digest(bench: Bench) -> str:
    """Digest of everything that decides what is measured; numbers under two digests are not comparable."""
    config = bench.config
    measured: tuple[object, ...] = (config.workloads, config.objective.metric)
    if config.load != LoadTable():
        measured = (*measured, config.load)
    return hashlib.sha256(msgspec.json.encode(measured)).hexdigest()[:16]


def plan_trial(
    bench: Bench, hypothesis: Hypothesis, baseline: Baseline, *, override: str
) -> tuple[Arms, Finding | None]:
    """Check a hypothesis against what is known and against what stands on the host.

    Args:
        bench: The lab's tools.
        hypothesis: What is to be tested.
        baseline: What it is tested against.
        override: Reason for trying a dead end all the same; empty means not to.

    Returns:
        Both arms, and the dead end that was overridden.

    Raises:
        Refused: It is a known dead end, an edit does not apply, a setting cannot be written, a pin cannot be built.
        Drift: A managed file is not what the baseline says.
        UsageError: A hypothesis that must be decided first is not.
    """
    undecided = [name for name in hypothesis.after if name not in decided(bench)]
    if undecided:
        raise UsageError(
            f"{hypothesis.name} comes after {', '.join(undecided)}, not decided yet",
            hint="try that first, or drop `after`",
        )
    dead = dead_end(bench.memory.state.findings, hypothesis.changes, baseline.facts)
    if dead is not None and not override:
        raise Refused(
            f"{hypothesis.name} is a known dead end ({dead.id}): {dead.quote or dead.claim}",
            hint=f'it re-opens with {dead.reopens}; --override "reason" tries it all the same',
            finding=dead.id,
        )
    if hypothesis.proves:
        require_telling(bench, hypothesis.proves)
    edits = plan_edits(bench.host, bench.config, hypothesis.changes, known_files(bench))
    require_not_ours(bench, edits)
    bench.host.settings.read(hypothesis.changes.settings())
    overlay = build_overlay(bench, hypothesis.changes)
    candidate = candidate_launch(bench, baseline, hypothesis.changes, overlay)
    arms = Arms(
        baseline=baseline.spec,
        candidate=candidate,
        changes=hypothesis.changes,
        edits=edits,
        overlay=overlay,
        sign=hypothesis.proves,
    )
    return arms, dead


def require_not_ours(bench: Bench, edits: Sequence[FileEdit]) -> None:
    """Refuse edits of the lab's own memory; the overlays beside it are code like any other.

    Raises:
        Refused: A path is the store's, or an artifact.
    """
    own = bench.folder.resolve()
    for path in (Path(edit.path) for edit in edits):
        if bench.host.is_here and (path.parent == own or path.is_relative_to(own / "artifacts")):
            raise Refused(f"{path} is the memory of this lab", hint="change files that the server reads")


def require_telling(bench: Bench, sign: Sign) -> None:
    """Refuse a sign that the baseline's last log shows, too: it would tell nothing.

    Raises:
        Refused: It does.
    """
    logs = [launch.log for launch in bench.memory.state.ledger if launch.arm == "baseline" and launch.log]
    try:
        log = bench.artifacts.path(logs[-1]).read_text("utf-8", errors="replace") if logs else ""
    except NotFound:
        return
    found = find_sign(sign, {}, log)
    if found:
        raise Refused(f"what `proves` names shows without the change, too: {found}", hint="name another line")


def candidate_launch(bench: Bench, baseline: Baseline, changes: ChangeSet, overlay: Overlay | None) -> LaunchSpec:
    """How the candidate is started: flags, environment, overlay, compile caches of its own."""
    spec = changes.on(
        with_inherited_path(baseline.spec, overlay),
        aliases=bench.engine.aliases,
        overlay=overlay.folder if overlay else "",
    )
    return with_own_caches(bench.host, spec, changes, folder=bench.folder / "caches", version=baseline.version)


def decided(bench: Bench) -> Mapping[str, str]:
    """Name of every hypothesis with a verdict other than void, to that verdict."""
    trials = bench.memory.state.trials.values()
    return {
        trial.hypothesis.name: trial.verdict.decision
        for trial in trials
        if trial.verdict is not None and trial.verdict.decision != "void"
    }
