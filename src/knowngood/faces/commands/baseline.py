"""``knowngood baseline``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import FilesView, baseline_view


@click.command(name="baseline")
@lab_option
@json_option
@click.option("--dry-run", is_flag=True, help="Say what would be started, and start nothing.")
def command(*, folder: Path | None, as_json: bool, dry_run: bool) -> int:
    """Launch the known-good server several times and record how it is and how steady it is."""
    lab = open_lab(folder, progress=True)
    if dry_run:
        launches = 2 * lab.config.verdict.baseline_pairs
        spec = lab.state.baseline.spec if lab.state.baseline else lab.config.spec
        message = f"{launches} launches of: {' '.join(spec.argv)}"
        present(FilesView(files=(), message=message), as_json=as_json)
        return 0
    recorded = lab.baseline()
    view = baseline_view(lab.state, recorded, metric=lab.config.objective.metric, mde=lab.mde())
    present(view, as_json=as_json)
    return 0
