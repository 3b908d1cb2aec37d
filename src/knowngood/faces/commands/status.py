"""``knowngood status``."""

from pathlib import Path

import click

from knowngood.app.lab import Status
from knowngood.app.without_lab import left_on_host
from knowngood.errors import StoreError
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import StatusView


@click.command(name="status")
@lab_option
@json_option
def command(*, folder: Path | None, as_json: bool) -> int:
    """Say whether the host is at known-good; exit with 3 if it is not."""
    try:
        now = open_lab(folder).status()
    except StoreError as error:
        left = (*left_on_host(folder), f"{error.message} ({error.hint})")
        now = Status(known_good=False, baseline=0, running="", left_over=left, drift=(), trials=0, kept=())
    present(StatusView(status=now), as_json=as_json)
    return 0 if now.known_good or now.running else 3
