"""``knowngood check``."""

from pathlib import Path
from typing import Literal

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import TriesView, trial_view
from knowngood.model.events import Purpose

PURPOSES: dict[str, Purpose] = {"self-test": "self_test", "champion": "champion"}


@click.command(name="check")
@click.argument("what", type=click.Choice(list(PURPOSES)))
@lab_option
@json_option
@click.option("--profile", default="", help="quick, standard, thorough or explore; default: what the lab file says.")
def command(*, what: Literal["self-test", "champion"], folder: Path | None, as_json: bool, profile: str) -> int:
    """Have the engine check itself.

    self-test: an A/A trial, which must not end in a keep. champion: all keeps together against the original, with fresh
    launches. `knowngood try` does both by itself now and then, see [verdict].
    """
    lab = open_lab(folder, progress=True)
    check = lab.check(PURPOSES[what], profile=profile)
    version = lab.state.baseline.version if lab.state.baseline else 0
    present(TriesView(trials=(), checks=(trial_view(check),), alarms=lab.alarms(), baseline=version), as_json=as_json)
    return 1 if check.verdict is None or check.verdict.decision == "void" else 0
