"""``knowngood recover``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import RecoverView


@click.command(name="recover")
@lab_option
@json_option
@click.option("--dry-run", is_flag=True, help="Say what is left over, and change nothing.")
def command(*, folder: Path | None, as_json: bool, dry_run: bool) -> int:
    """Bring the host back to known-good after work was cut off."""
    lab = open_lab(folder)
    if dry_run:
        present(RecoverView(did=tuple(f"left over: {line}" for line in lab.status().left_over)), as_json=as_json)
        return 0
    present(RecoverView(did=lab.recover()), as_json=as_json)
    return 0 if lab.status().known_good else 3
