"""What a trial would do and cost, without doing it."""

import difflib

import msgspec

from knowngood.flow.bench import Bench
from knowngood.flow.cost import price_of
from knowngood.flow.preflight import plan_trial, require_baseline
from knowngood.flow.server import which
from knowngood.model.files import FileEdit
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Host


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial would do.

    Attributes:
        spec: How the candidate would be started.
        settings: Setting, what it reads now, what it would be.
        diffs: Path and unified diff of each file that would change.
        mde: Smallest effect that it would keep with 80 % probability, as a ratio minus one.
        expected_min: Minutes it takes on average if the change does nothing.
        worst_min: Minutes it takes at most, as long as no pair is repeated.
    """

    spec: LaunchSpec
    settings: tuple[tuple[str, str, str], ...]
    diffs: tuple[tuple[str, str], ...]
    mde: float
    expected_min: float
    worst_min: float


def preview(bench: Bench, hypothesis: Hypothesis, *, profile: str) -> Preview:
    """Check a hypothesis as a trial would, and say what the trial would do and cost.

    Raises:
        Refused: It is a known dead end, or an edit does not apply.
        UsageError: There is no baseline to test it against.
    """
    baseline = require_baseline(bench)
    arms, _ = plan_trial(bench, hypothesis, baseline, override="preview")
    now = bench.host.settings.read(hypothesis.changes.settings())
    cost = price_of(bench, profile or bench.config.verdict.profile)
    return Preview(
        spec=bench.engine.resolve(arms.candidate, which=lambda name: which(bench, name)),
        settings=tuple((one.name, now[one.name], one.value) for one in hypothesis.changes.settings()),
        diffs=tuple((edit.path, diff_of(bench.host, edit)) for edit in arms.edits),
        mde=cost.mde,
        expected_min=cost.minutes,
        worst_min=cost.most_minutes,
    )


def diff_of(host: Host, edit: FileEdit) -> str:
    """Unified diff of a planned edit; bytes that are no text are shown as replacement characters."""
    before = (host.look(edit.path) or b"").decode(errors="replace").splitlines(keepends=True)
    after = (edit.after or b"").decode(errors="replace").splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, fromfile=edit.path, tofile=edit.path))
