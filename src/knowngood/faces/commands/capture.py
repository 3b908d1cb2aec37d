"""``knowngood capture``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowngood.errors import UsageError
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import CaptureView

if TYPE_CHECKING:
    from knowngood.flow.capture import Captured

NOTHING = "nothing was edited by hand since the baseline"
STANDS = "the edits stand on the host: `knowngood try` refuses until it is brought back"


@click.command(name="capture")
@lab_option
@json_option
@click.option("--name", default="", help="Name of the experiment; default: captured-1, captured-2, ….")
@click.option("--claim", default="", help="What you believe the edits do.")
@click.option(
    "--root", "roots", multiple=True, metavar="DIR", help="Only what lies in this managed directory; repeatable."
)
@click.option("--yes", is_flag=True, help="Bring the host back to known-good without asking.")
@click.option("--dry-run", is_flag=True, help="Show the whole diff, and change nothing.")
def command(
    *, folder: Path | None, as_json: bool, name: str, claim: str, roots: tuple[str, ...], yes: bool, dry_run: bool
) -> int:
    """Make an experiment of what was edited by hand, and bring the host back, so that `try` can apply it itself."""
    lab = open_lab(folder)
    chosen = tuple(str(Path(root).resolve()) for root in roots)
    if dry_run:
        captured = lab.plan_capture(name=name, claim=claim, roots=chosen)
        message = "nothing was changed" if captured.changes else NOTHING
        files = tuple(str(lab.config.root / "experiments" / place) for place in reversed(captured.files))
        present(view(captured, files if captured.changes else (), message=message), as_json=as_json)
        return 0
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError("nobody is here to be asked", hint="--yes brings the host back without asking")

    def agree(captured: "Captured") -> bool:
        if yes:
            return True
        click.echo(captured.diff, err=True)
        question = f"{len(captured.changes)} files are in {captured.name}.toml. Bring the host back to known-good?"
        return click.confirm(question, default=True, err=True)

    captured, written, agreed = lab.capture(name=name, claim=claim, roots=chosen, agree=agree)
    message = NOTHING if not captured.changes else "" if agreed else STANDS
    present(view(captured, tuple(str(path) for path in written), put_back=agreed, message=message), as_json=as_json)
    return 0


def view(captured: "Captured", files: tuple[str, ...], *, put_back: bool = False, message: str = "") -> CaptureView:
    """Show what was captured."""
    return CaptureView(
        name=captured.name,
        changed=tuple(change.path for change in captured.changes),
        left_out=tuple(f"{path}: {why}" for path, why in captured.left_out),
        diff=captured.diff,
        files=files,
        put_back=put_back,
        message=message,
    )
