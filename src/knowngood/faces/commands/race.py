"""``knowngood race``."""

from pathlib import Path

import click
import msgspec

from knowngood.app.lab import Lab
from knowngood.config.space import LineUp, read_budget, read_line_up
from knowngood.errors import UsageError
from knowngood.faces.races import RacePlanView, RaceView, race_view
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.reason.records import RaceRun, Trial


@click.command(name="race")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@lab_option
@json_option
@click.option("--profile", default="", help="Of the confirming trial; default: what the lab file says.")
@click.option("--budget", default="", help="Of a knob space: launches (24) or time (40m) spent on proposals at most.")
@click.option("--pareto", default="", metavar="METRIC,METRIC", help="The two metrics to weigh against each other.")
@click.option("--gate", is_flag=True, help="Exit with 4 unless the winner is kept.")
@click.option("--dry-run", is_flag=True, help="Check everything, show the price, start nothing.")
def command(
    *,
    files: tuple[Path, ...],
    folder: Path | None,
    as_json: bool,
    profile: str,
    budget: str,
    pareto: str,
    gate: bool,
    dry_run: bool,
) -> int:
    """Find the best of many: race the experiment FILEs, or what a knob space proposes, then try the winner.

    In each block every candidate that is still in the race is launched once; who trails drops out. The winner has to
    prove itself in an ordinary trial: kept if it is proven better, else everything is brought back.
    """
    line_up = with_budget(read_line_up(files), budget)
    metrics = read_metrics(pareto)
    lab = open_lab(folder, progress=not dry_run)
    if dry_run:
        present(dry_run_view(lab, line_up, profile), as_json=as_json)
        return 0
    race, trial = lab.race(line_up, metrics=metrics, profile=profile)
    present(show_race(lab, race, trial, metrics), as_json=as_json)
    decision = trial.verdict.decision if trial and trial.verdict else ""
    return 1 if decision == "void" else 4 if gate and decision != "keep" else 0


def with_budget(line_up: LineUp, budget: str) -> LineUp:
    """The line-up with another budget for its space; as it is, if that is empty.

    Raises:
        UsageError: It has no space, or the budget is none.
    """
    if not budget:
        return line_up
    if line_up.space is None:
        raise UsageError("--budget belongs to a knob space", hint="leave it out for a race of experiment files")
    launches, minutes = read_budget(int(budget) if budget.isdigit() else budget, where="--budget")
    space = msgspec.structs.replace(line_up.space, launches=launches, minutes=minutes)
    return msgspec.structs.replace(line_up, space=space)


def read_metrics(text: str) -> tuple[str, str] | None:
    """Two metrics with a comma between; None for an empty text.

    Raises:
        UsageError: It is something else.
    """
    if not text:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != len(("x", "y")) or not all(names):
        raise UsageError(f"--pareto is {text!r}", hint="two metrics, such as output_tok_s,ttft_p99_ms")
    return names[0], names[1]


def show_race(lab: Lab, race: RaceRun, trial: Trial | None, metrics: tuple[str, str] | None = None) -> RaceView:
    """Show a race, with the metrics asked for or those it was run with."""
    chosen = metrics or race.metrics
    return race_view(race, lab.pareto(race, chosen), metrics=chosen, trial=trial)


def dry_run_view(lab: Lab, line_up: LineUp, profile: str) -> RacePlanView:
    """Say what a race would do."""
    found = lab.preview_race(line_up, profile=profile)
    return RacePlanView(
        candidates=found.candidates,
        left_out=found.left_out,
        proposals=found.proposals,
        expected_launches=found.cost.launches,
        worst_launches=found.cost.most_launches,
        expected_min=found.cost.minutes,
        worst_min=found.cost.most_minutes,
    )
