"""``knowngood show``."""

from pathlib import Path

import click

from knowngood.faces.isolation import isolation_view
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import trial_view


@click.command(name="show")
@click.argument("trial")
@lab_option
@json_option
def command(*, trial: str, folder: Path | None, as_json: bool) -> int:
    """Show one TRIAL, by its id or by its hypothesis's name; or one isolation, by its id."""
    lab = open_lab(folder)
    searched = lab.state.isolations.get(trial)
    present(isolation_view(lab.state, searched) if searched else trial_view(lab.trial(trial)), as_json=as_json)
    return 0
