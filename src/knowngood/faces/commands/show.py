"""``knowngood show``."""

from pathlib import Path

import click

from knowngood.faces.commands.race import read_metrics, show_race
from knowngood.faces.isolation import isolation_view
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import trial_view
from knowngood.reason.fold import confirmation


@click.command(name="show")
@click.argument("trial")
@lab_option
@json_option
@click.option("--pareto", default="", metavar="METRIC,METRIC", help="Of a race: the two metrics to weigh.")
def command(*, trial: str, folder: Path | None, as_json: bool, pareto: str) -> int:
    """Show one TRIAL, by its id or by its hypothesis's name; or one race or isolation, by its id."""
    lab = open_lab(folder)
    if searched := lab.state.isolations.get(trial):
        present(isolation_view(lab.state, searched), as_json=as_json)
    elif race := lab.state.races.get(trial):
        confirmed = confirmation(lab.state, race)
        present(show_race(lab, race, confirmed, read_metrics(pareto)), as_json=as_json)
    else:
        present(trial_view(lab.trial(trial)), as_json=as_json)
    return 0
