"""``knowngood serve``."""

import shlex
from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import View


@click.command(name="serve")
@lab_option
@json_option
@click.option("--dry-run", is_flag=True, help="Print the command, and start nothing.")
def command(*, folder: Path | None, as_json: bool, dry_run: bool) -> int:
    """Start the known-good server in the foreground, in place of this process."""
    lab = open_lab(folder)
    spec = lab.known_good_launch()
    if not (dry_run or as_json):
        lab.serve(spec)
    present(View(message=shlex.join(spec.argv)), as_json=as_json)
    return 0
