"""``knowngood doctor``."""

from pathlib import Path

import click
import msgspec

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import DoctorView


@click.command(name="doctor")
@lab_option
@json_option
@click.option("--seconds", default=3.0, show_default=True, help="How long to watch the machine.")
def command(*, folder: Path | None, as_json: bool, seconds: float) -> int:
    """Say what this host is, what is missing, how quiet it is, and what a trial here can detect at which price."""
    found = open_lab(folder).examine(watch_s=seconds)
    view = DoctorView(**msgspec.structs.asdict(found))
    present(view, as_json=as_json)
    return 0
