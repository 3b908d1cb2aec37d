"""``knowngood plan``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import PlanView


@click.command(name="plan")
@lab_option
@json_option
def command(*, folder: Path | None, as_json: bool) -> int:
    """List the hypotheses: what to try next first, then what was decided and why."""
    lab = open_lab(folder)
    present(PlanView(hypotheses=lab.plan(), next=lab.left_to_do()), as_json=as_json)
    return 0
