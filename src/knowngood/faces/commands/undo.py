"""``knowngood undo``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import View


@click.command(name="undo")
@lab_option
@json_option
@click.option("--dry-run", is_flag=True, help="Say which keep would be taken back, and change nothing.")
def command(*, folder: Path | None, as_json: bool, dry_run: bool) -> int:
    """Take the last keep back: the baseline before it is known-good again."""
    lab = open_lab(folder)
    if dry_run:
        kept = lab.state.baseline.kept if lab.state.baseline else ()
        name = lab.state.trials[kept[-1]].hypothesis.name if kept else ""
        present(View(message=f"would take back {kept[-1]} ({name})" if kept else "nothing is kept"), as_json=as_json)
        return 0
    trial = lab.undo()
    version = lab.state.baseline.version if lab.state.baseline else 0
    present(View(message=f"took back {trial.id} ({trial.hypothesis.name}); baseline {version}"), as_json=as_json)
    return 0
