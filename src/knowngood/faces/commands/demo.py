"""``knowngood demo``."""

import tempfile
import time
from pathlib import Path

import click

from knowngood.app.lab import Lab
from knowngood.app.without_lab import make_demo_lab
from knowngood.config.experiment import load_experiment
from knowngood.errors import Refused
from knowngood.faces.layout import columns
from knowngood.faces.progress import Progress
from knowngood.faces.report import write_report
from knowngood.faces.show import json_option, present
from knowngood.faces.text import baseline, headline
from knowngood.faces.views import (
    DemoView,
    FileState,
    PlanView,
    StatusView,
    TrialView,
    baseline_view,
    findings_view,
    trial_view,
)


@click.command(name="demo")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--quick", is_flag=True, help="About 4 minutes instead of 12; the statistics are weaker, and say so.")
@json_option
def command(*, folder: Path | None, quick: bool, as_json: bool) -> int:
    """Run the whole loop on a real server with a real model: keeps, reverts, a dead end, a silent no-op.

    The lab is written to FOLDER (default: a new temporary one) and stays there to be looked at.
    """
    show = Progress()
    begun = time.monotonic()
    root = folder or Path(tempfile.mkdtemp(prefix="knowngood-demo-"))
    show.note(f"lab: {root}")
    experiments = make_demo_lab(root, quick=quick)
    lab = Lab(root, show=show)
    recorded = lab.baseline()
    measured = baseline_view(lab.state, recorded, metric=lab.config.objective.metric, mde=lab.mde())
    show.note(baseline(measured).replace("\n", "\n  "))
    trials: list[TrialView] = []
    for path in experiments:
        trials.append(trial_view(lab.try_one(load_experiment(path), force=True)))
        show.note(columns([headline(trials[-1])]))
    refused = refuse_dead_end(lab, trials, experiments)
    report = root / "report.html"
    write_report(lab, report)
    known = lab.state.baseline
    view = DemoView(
        lab=str(root),
        trials=tuple(trials),
        refused=refused,
        plan=PlanView(hypotheses=lab.plan()),
        findings=findings_view(lab.state.findings),
        status=StatusView(status=lab.status()),
        files=tuple(FileState(path=path, sha256=digest) for path, digest in known.files.items()) if known else (),
        report=str(report),
        minutes=(time.monotonic() - begun) / 60,
        quick=quick,
    )
    show.finish()
    present(view, as_json=as_json)
    return 0 if view.status.status.known_good else 3


def refuse_dead_end(lab: Lab, trials: list[TrialView], experiments: tuple[Path, ...]) -> str:
    """Try the dead end again: it is refused before anything starts. Returns the refusal; empty if there is none."""
    dead = next((one for one in trials if one.diagnosis is not None and one.diagnosis.hard), None)
    if dead is None:
        return ""
    path = next(path for path in experiments if path.stem == dead.name)
    try:
        lab.try_one(load_experiment(path))
    except Refused as error:
        return error.message
    return ""
