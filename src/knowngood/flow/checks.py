"""The engine's checks of itself: measured as trials are, and whatever comes out, known-good stays what it is."""

import msgspec

from knowngood.errors import UsageError
from knowngood.flow.bench import Bench
from knowngood.flow.cost import announce
from knowngood.flow.pairs import Pairs
from knowngood.flow.preflight import Arms, require_baseline, require_known_good, require_no_drift
from knowngood.flow.trial import close, compare, end, prepare
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet
from knowngood.model.events import Purpose, TrialStarted
from knowngood.model.files import FileEdit
from knowngood.model.hypothesis import Hypothesis
from knowngood.reason.comparison import all_noise, own_noise
from knowngood.reason.fold import find
from knowngood.reason.records import Trial

HYPOTHESES = {
    "self_test": Hypothesis(
        name="self-test",
        claim="An A/A trial is no keep",
        because="Both arms are the known-good server: whatever differs is the machine, or this engine",
    ),
    "champion": Hypothesis(
        name="champion",
        claim="All keeps together are better than the original",
        because="Single trials see neither keeps that spoil each other nor a candidate noisier than its baseline was",
    ),
}


def run_check(bench: Bench, purpose: Purpose, *, profile: str = "") -> Trial:
    """Measure a self-test or a champion check.

    Args:
        bench: The lab's tools.
        purpose: ``self_test`` or ``champion``.
        profile: How much evidence is wanted; empty means what the lab file says.

    Returns:
        The check with its verdict; the known-good state is what it was.

    Raises:
        UsageError: There is nothing to check.
        Quarantined: Earlier work was cut off.
        RevertFailed: The host could not be brought back; it is quarantined.
    """
    hypothesis = HYPOTHESES[purpose]
    with bench.host.lease(purpose=f"{hypothesis.name} in {bench.config.root}"):
        require_known_good(bench)
        baseline = require_baseline(bench)
        require_no_drift(bench)
        arms = lay_out(bench, baseline, purpose)
        comparison = prepare(bench, baseline, profile or bench.config.verdict.profile)
        # Without the ledger no check ends before its first pair; a champion's baseline is not what the ledger is of.
        comparison = msgspec.structs.replace(comparison, ledger=())
        name = f"c{len(bench.memory.state.checks) + 1:04d}"
        announce(bench, f"{name} {hypothesis.name}", comparison.profile)
        started = TrialStarted(
            at=bench.now(),
            trial=name,
            hypothesis=hypothesis,
            baseline=baseline.version,
            profile=comparison.profile,
            mde=comparison.judge(()).mde,
            purpose=purpose,
        )
        try:
            bench.memory.record(started)
            pairs = Pairs(bench, name, arms, comparison)
            verdict, diagnosis = compare(bench, pairs)
            noise = all_noise(pairs.accepted) if purpose == "self_test" else own_noise(pairs.accepted)
            end(bench, name, verdict, diagnosis, noise)
        except BaseException as error:
            close(bench, name, error)
            raise
        return find(bench.memory.state, name)


def lay_out(bench: Bench, baseline: Baseline, purpose: Purpose) -> Arms:
    """Both arms of a check: twice the known-good server; or the known-good server against the original one.

    Raises:
        UsageError: Nothing is kept.
    """
    if purpose == "self_test":
        return Arms(baseline=baseline.spec, candidate=baseline.spec, changes=ChangeSet())
    originals = [one for one in bench.memory.state.baselines if not one.kept and one.origin == baseline.origin]
    if not baseline.kept or not originals:
        raise UsageError("nothing is kept: the known-good server is the original", hint="`knowngood plan`")
    if baseline.settings:
        bench.show.note(f"settings stay as they were kept, in both arms: {', '.join(baseline.settings)}")
    return Arms(
        baseline=originals[-1].spec,
        candidate=baseline.spec,
        changes=ChangeSet(),
        baseline_edits=tuple(to_original(bench, baseline)),
    )


def to_original(bench: Bench, baseline: Baseline) -> list[FileEdit]:
    """Edits that make kept files what they were before the first keep."""

    def content(digest: str) -> bytes | None:
        return bench.artifacts.path(digest).read_bytes() if digest else None

    return [
        FileEdit(path=path, before=baseline.files[path] or None, after=content(original))
        for path, original in baseline.originals.items()
        if baseline.files.get(path, original) != original
    ]
