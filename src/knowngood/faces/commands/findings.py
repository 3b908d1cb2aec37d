"""``knowngood findings``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import findings_view


@click.command(name="findings")
@lab_option
@json_option
def command(*, folder: Path | None, as_json: bool) -> int:
    """List what was learned, where it holds, and what would re-open it."""
    present(findings_view(open_lab(folder).state.findings), as_json=as_json)
    return 0
