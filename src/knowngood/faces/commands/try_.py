"""``knowngood try``."""

from pathlib import Path

import click

from knowngood.app.lab import Lab
from knowngood.app.without_lab import read_experiments
from knowngood.errors import KnowngoodError
from knowngood.faces.cli import worst
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import DryRunView, MemberDiff, TrialView, TriesView, trial_view
from knowngood.model.hypothesis import Hypothesis

QUARANTINED = 3


@click.command(name="try")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@lab_option
@json_option
@click.option("--profile", default="", help="quick, standard, thorough or explore; default: what the lab file says.")
@click.option(
    "--override", default="", metavar="REASON", help="Try a known dead end all the same; the reason is stored."
)
@click.option("--force", is_flag=True, help="Try it even if the predicted effect is too small to be found.")
@click.option("--gate", is_flag=True, help="Exit with 4 unless every trial is a keep.")
@click.option("--dry-run", is_flag=True, help="Check everything, show the diff and the price, start nothing.")
def command(
    *,
    files: tuple[Path, ...],
    folder: Path | None,
    as_json: bool,
    profile: str,
    override: str,
    force: bool,
    gate: bool,
    dry_run: bool,
) -> int:
    """Test each experiment FILE against the baseline: keep it if it is proven better, else bring everything back."""
    hypotheses = read_experiments(files)
    lab = open_lab(folder, progress=not dry_run)
    if dry_run:
        for hypothesis in hypotheses:
            present(dry_run_view(lab, hypothesis, profile), as_json=as_json)
        return 0
    trials: list[TrialView] = []
    checks: list[TrialView] = []
    errors: list[str] = []
    statuses: list[int] = []
    for hypothesis in hypotheses:
        try:
            trial = lab.try_one(hypothesis, profile=profile, override=override, force=force)
        except KnowngoodError as error:
            if len(hypotheses) == 1 or error.exit_status == QUARANTINED:
                raise
            errors.append(f"{hypothesis.name}: {error.message} ({error.hint})")
            statuses.append(error.exit_status)
            continue
        decision = trial.verdict.decision if trial.verdict else "void"
        statuses.append(1 if decision == "void" else 4 if gate and decision != "keep" else 0)
        trials.append(trial_view(trial))
        if purpose := lab.due_check():
            checks.append(trial_view(lab.check(purpose)))
    version = lab.state.baseline.version if lab.state.baseline else 0
    view = TriesView(
        trials=tuple(trials),
        errors=tuple(errors),
        baseline=version,
        checks=tuple(checks),
        alarms=lab.alarms() if checks else (),
    )
    present(view, as_json=as_json)
    return worst(statuses)


def dry_run_view(lab: Lab, hypothesis: Hypothesis, profile: str) -> DryRunView:
    """Say what a trial would do."""
    found = lab.preview(hypothesis, profile=profile)
    return DryRunView(
        name=hypothesis.name,
        argv=found.spec.argv,
        env=found.spec.env,
        settings=tuple(f"{name}: {now} -> {value}" for name, now, value in found.settings),
        diffs=tuple(MemberDiff(path=path, diff=diff) for path, diff in found.diffs),
        mde=found.mde,
        expected_min=found.expected_min,
        worst_min=found.worst_min,
    )
