"""``knowngood status``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import StatusView


@click.command(name="status")
@lab_option
@json_option
def command(*, folder: Path | None, as_json: bool) -> int:
    """Say whether the host is at known-good; exit with 3 if it is not."""
    now = open_lab(folder).status()
    present(StatusView(status=now), as_json=as_json)
    return 0 if now.known_good or now.running else 3
