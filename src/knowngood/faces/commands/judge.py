"""``knowngood judge``."""

from pathlib import Path

import click

from knowngood.app.without_lab import judge_runs
from knowngood.faces.show import json_option, present
from knowngood.faces.views import JudgeView

NO_VERDICT = 1
NOT_A_KEEP = 4


@click.command(name="judge")
@click.argument("samples", type=click.Path(path_type=Path))
@json_option
@click.option("--metric", default="", help="The metric that decides; default: the only one there is.")
@click.option(
    "--direction",
    type=click.Choice(["higher", "lower"]),
    default=None,
    help="Whether more or less of it is better; default: what its name implies.",
)
@click.option("--worthwhile", default="2%", show_default=True, help="Smallest gain worth keeping.")
@click.option("--profile", default="standard", show_default=True, help="quick, standard, thorough or explore.")
@click.option(
    "--noise", type=click.Path(path_type=Path), default=None, metavar="FILE", help="Further launches of the baseline."
)
@click.option("--gate", is_flag=True, help="Exit with 4 unless it is a keep.")
def command(
    *,
    samples: Path,
    as_json: bool,
    metric: str,
    direction: str | None,
    worthwhile: str,
    profile: str,
    noise: Path | None,
    gate: bool,
) -> int:
    """Give the verdict on runs made elsewhere: SAMPLES is CSV or JSON lines (- is standard input). Needs no lab.

    Fields: arm (baseline, candidate; noise is the baseline once more), launch, run, metric, value, time.
    """
    ruling = judge_runs(
        samples, noise=noise, metric=metric, direction=direction or "", worthwhile=worthwhile, profile=profile
    )
    present(JudgeView(ruling=ruling), as_json=as_json)
    if gate and (ruling.verdict is None or ruling.verdict.decision != "keep"):
        return NOT_A_KEEP
    return 0 if ruling.verdict else NO_VERDICT
