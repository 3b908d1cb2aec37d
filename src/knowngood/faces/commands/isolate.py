"""``knowngood isolate``."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from knowngood.app import Lab, read_experiments
from knowngood.errors import UsageError
from knowngood.faces.isolation import OutlineView, isolation_view
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Kind
from knowngood.reason.items import Grain

if TYPE_CHECKING:
    from knowngood.flow.isolate import Outline


@click.command(name="isolate")
@click.argument("experiment")
@lab_option
@json_option
@click.option(
    "--kind",
    type=click.Choice(["failure", "effect"]),
    default=None,
    help="Look for what makes it fail, or for what makes it slow; default: what its newest trial shows.",
)
@click.option(
    "--by",
    "grain",
    type=click.Choice(["member", "file", "hunk"]),
    default=None,
    help="How finely patches are taken apart; default: hunk for a failure, member for an effect.",
)
@click.option("--no-trial", is_flag=True, help="Do not try what survives.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write what survives as an experiment.")
@click.option("--dry-run", is_flag=True, help="Show the items and the price, start nothing.")
def command(
    *,
    experiment: str,
    folder: Path | None,
    as_json: bool,
    kind: str | None,
    grain: str | None,
    no_trial: bool,
    out: Path | None,
    dry_run: bool,
) -> int:
    """Find the member of EXPERIMENT (its file, or a trial of it) that makes it fail, or that makes it slow.

    Parts of the change set are launched until that is known; then what survives gets an ordinary trial. Cut off
    anywhere, the same command goes on with what it knows.
    """
    if out is not None and (out.exists() or out.suffix != ".toml"):
        raise UsageError(
            f"{out} {'stands there already' if out.exists() else 'is no .toml file'}", hint="another --out"
        )
    lab = open_lab(folder, progress=not dry_run)
    hypothesis = find_hypothesis(lab, experiment)
    outline = lab.plan_isolation(hypothesis, kind=cast("Kind | None", kind), grain=cast("Grain | None", grain))
    if dry_run:
        present(outline_view(outline), as_json=as_json)
        return 0
    done = lab.isolate(outline, confirm=not no_trial)
    files = lab.write_experiment(done.result.rest, out) if out is not None and done.result is not None else ()
    present(isolation_view(lab.state, done, files=[str(path) for path in files]), as_json=as_json)
    return 0


def find_hypothesis(lab: Lab, experiment: str) -> Hypothesis:
    """What an experiment file says, what a trial tested, or what an isolation takes apart.

    Raises:
        UsageError: The file is wrong.
        NotFound: There is neither such a file nor such a trial.
    """
    if experiment in lab.state.isolations:
        return lab.state.isolations[experiment].hypothesis
    path = Path(experiment)
    return read_experiments([path])[0] if path.is_file() else lab.trial(experiment).hypothesis


def outline_view(outline: "Outline") -> OutlineView:
    """Show what an isolation would do and cost."""
    return OutlineView(
        name=outline.hypothesis.name,
        kind=outline.kind,
        items=outline.names,
        expected_launches=outline.launches,
        worst_launches=outline.most_launches,
        expected_min=outline.minutes,
        worst_min=outline.most_minutes,
        trial_expected_min=outline.trial_minutes,
        trial_worst_min=outline.trial_most_minutes,
    )
