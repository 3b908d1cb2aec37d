"""Hand over: what somebody edited by hand becomes an experiment, and the host goes back to known-good."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from knowngood.config.experiment import load_experiment
from knowngood.errors import Drift, KnowngoodError, NotFound, UsageError
from knowngood.flow.bench import Site
from knowngood.flow.files import write_new_files
from knowngood.flow.managed import EXPERIMENTS, Changed, changed_files, known_bytes
from knowngood.flow.preflight import capture_prefix, require_known_good
from knowngood.model.files import FileEdit
from knowngood.reason import edits as planning
from knowngood.reason.patches import file_diff, is_text

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
PLAIN = re.compile(r'[^\x00-\x1f"\\\x7f]+')
SHORT_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """Edits by hand as an experiment.

    Attributes:
        name: Of the hypothesis.
        changes: What it holds.
        left_out: Path, and why it could not be captured.
        diff: All of it as text for a reader; of binary files only their names.
        files: File name below ``experiments/`` to bytes; the experiment file comes last.
    """

    name: str
    changes: tuple[Changed, ...]
    left_out: tuple[tuple[str, str], ...]
    diff: str
    files: dict[str, bytes]


def plan_capture(site: Site, *, name: str, claim: str, roots: Sequence[str]) -> Captured:
    """Make an experiment of what was edited by hand since the baseline; writes nothing.

    Args:
        site: The lab and its host.
        name: Of the hypothesis; empty chooses one.
        claim: What whoever edited believes; empty leaves it open.
        roots: Directories that it is about; none means all that is managed.

    Raises:
        UsageError: There is no baseline, a directory is not managed, or the name is taken.
        Quarantined: Earlier work was cut off: what stands there may be ours.
    """
    require_known_good(site)
    require_managed(site, roots)
    found = [change for change in changed_files(site, thorough=True) if is_below(change.path, roots)]
    chosen = name or free_name(site)
    require_free(site, chosen)
    patch: list[bytes] = []
    whole: dict[str, Changed] = {}
    left_out: dict[str, str] = {}
    taken: list[Changed] = []
    root = common_root([change.root for change in found if not change.why_not])
    for change in found:
        before = known_bytes(site, change)
        relative = os.path.relpath(change.path, root) if root else change.path
        diff = file_diff(relative, before, change.after) if is_text(before, change.after) else b""
        if change.why_not:
            left_out[change.path] = change.why_not
        elif diff and PLAIN.fullmatch(relative):
            patch.append(diff)
            taken.append(change)
        elif change.after is not None:
            whole[f"{chosen}.files/{len(whole) + 1:03d}-{Path(change.path).name}"] = change
            taken.append(change)
        else:
            left_out[change.path] = "deleted, and a diff cannot say it: not captured"
    files = {place: change.after or b"" for place, change in whole.items()}
    if patch:
        files[f"{chosen}.patch"] = b"".join(patch)
    files[f"{chosen}.toml"] = experiment_text(chosen, claim, root if patch else "", whole).encode()
    shown = b"".join(patch).decode(errors="replace") + "".join(f"binary: {one.path}\n" for one in whole.values())
    return Captured(name=chosen, changes=tuple(taken), left_out=tuple(left_out.items()), diff=shown, files=files)


def require_managed(site: Site, roots: Sequence[str]) -> None:
    """Refuse to look where nothing was recorded.

    Raises:
        UsageError: There is no baseline, or a directory is not managed.
    """
    baseline = site.memory.state.baseline
    if baseline is None:
        raise UsageError("this lab has no baseline yet", hint="run `knowngood baseline` first")
    for root in roots:
        inside = any(is_below(root, [one]) for one in baseline.roots)
        if not inside and not any(is_below(path, [root]) for path in (*baseline.files, *baseline.roots)):
            hint = "add it to [host] managed, take your edits back for a moment, and run `knowngood baseline`"
            raise UsageError(f"{root} is not managed: nobody knows what stood there", hint=hint)


def is_below(path: str, roots: Sequence[str]) -> bool:
    """Whether a path is, or lies in, one of some directories; in all of them if there are none."""
    return not roots or any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in roots)


def free_name(site: Site) -> str:
    """The first of ``captured-1``, ``captured-2``, … that is not taken."""
    folder = site.config.root / EXPERIMENTS
    number = 1
    while (folder / f"captured-{number}.toml").exists():
        number += 1
    return f"captured-{number}"


def require_free(site: Site, name: str) -> None:
    """Refuse a name that is no file name, or is taken.

    Raises:
        UsageError: It is.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of an experiment", hint="letters, digits, '.', '_' and '-'")
    path = site.config.root / EXPERIMENTS / f"{name}.toml"
    if path.exists():
        raise UsageError(f"{path} stands there already", hint="choose another --name")


def common_root(roots: Sequence[str]) -> str:
    """The directory that all of them lie in; empty for none."""
    return os.path.commonpath(roots) if roots else ""


def experiment_text(name: str, claim: str, root: str, whole: dict[str, Changed]) -> str:
    """The experiment file."""

    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = [
        f"claim = {text(claim or 'the edits made by hand help')}",
        'because = "captured by knowngood capture"',
    ]
    if root:
        lines += ["", "[[change]]", f"patch = {text(f'{name}.patch')}", f"root = {text(root)}"]
    for place, change in whole.items():
        lines += ["", "[[change]]", f"file = {text(change.path)}", f"from = {text(place)}"]
    return "\n".join([*lines, ""])


def write_experiment(site: Site, captured: Captured) -> tuple[Path, ...]:
    """Write the experiment durably, and make sure that it leads from the known-good bytes to those that stand there.

    Raises:
        UsageError: The folder cannot be written.
        Drift: It does not, because somebody edits right now.
    """
    written = write_new_files(site.config.root / EXPERIMENTS, captured.files)
    try:
        require_faithful(site, captured)
    except KnowngoodError:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return tuple(reversed(written))


def require_faithful(site: Site, captured: Captured) -> None:
    """Read the experiment back and apply it in memory.

    Raises:
        Drift: What comes out is not what stands on the host.
    """
    read = load_experiment(site.config.root / EXPERIMENTS / f"{captured.name}.toml").changes
    start = {change.path: known_bytes(site, change) for change in captured.changes}
    planned = {edit.path: edit.after for edit in planning.plan(read.edits(), start)}
    wanted = {change.path: change.after for change in captured.changes}
    if planned != wanted:
        raise Drift(
            "the experiment does not lead to what stands on the host", hint="is somebody editing? capture again"
        )


def put_back(site: Site, captured: Captured) -> None:
    """Bring the captured files back to their known-good bytes, all or none; nothing else is touched.

    Raises:
        Drift: Somebody has edited one of them meanwhile; everything is as before.
        Refused: The host cannot take it; everything is as before.
    """
    edits = [
        FileEdit(path=change.path, before=planning.digest(change.after), after=known_bytes(site, change))
        for change in captured.changes
    ]
    if not edits:
        return
    made = hashlib.sha256(b"".join(captured.files.values())).hexdigest()[:8]
    # Not named as one of the lab's own transactions: until it is kept, `recover` brings the edits by hand back.
    tx = f"{capture_prefix(site)}{int(site.now() * 1000)}-{made}"
    site.host.journal.apply(tx, edits)
    site.host.journal.keep(tx)
    # The edits live on in the experiment; parked, they would stand in the way of an `undo` of what was kept before.
    site.host.journal.forget(tx)


def drift_diff(site: Site) -> str:
    """What was changed by hand, file by file, the first lines of each."""
    parts: list[str] = []
    for change in changed_files(site, thorough=False):
        try:
            before = known_bytes(site, change)
        except NotFound:
            parts.append(f"{change.path}: its known-good bytes are not among the lab's artifacts\n")
            continue
        if change.why_not or not is_text(before, change.after):
            parts.append(f"{change.path}: {change.why_not or 'binary'}\n")
            continue
        lines = file_diff(change.path.lstrip("/"), before, change.after).decode(errors="replace").splitlines()
        more = [f"… {len(lines) - SHORT_LINES} more lines"] if len(lines) > SHORT_LINES else []
        parts.append("\n".join([*lines[1:SHORT_LINES], *more, ""]))
    return "".join(parts)
