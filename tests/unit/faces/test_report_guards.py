"""What a report and a terminal say of guards: memory, accuracy, speculation."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.faces.test_report import LAB, History, contents, flags, outline

from knowngood.config.lab import LabConfig, load_lab
from knowngood.faces.report.page import document
from knowngood.faces.text import render
from knowngood.faces.views import trial_view
from knowngood.model.events import AccuracyChecked, Event, LaunchMeasured
from knowngood.model.evidence import ACCEPTANCE, AccuracyCheck, LaunchRecord

LOST = AccuracyCheck(items=500, base_right=480, right=450, lost=32, gained=2)


@pytest.fixture
def config(tmp_path: Path) -> LabConfig:
    (tmp_path / "knowngood.toml").write_text(LAB + '[accuracy]\ncommand = ["exam"]\n')
    return load_lab(tmp_path)


def speculative(config: LabConfig, acceptance: float) -> History:
    """A trial on a machine with accelerators, both of whose arms speculate, and whose accuracy was examined."""
    past = History(config)
    past.baseline()
    name = past.trial(flags("draft", ("--draft-max", "8")), 0.4)

    def dressed(event: Event) -> Event:
        if not isinstance(event, LaunchMeasured):
            return event
        is_mine = event.launch.arm == "candidate"
        return msgspec.structs.replace(
            event, launch=dress(event.launch, acceptance if is_mine else 2.9, is_mine=is_mine)
        )

    past.events = [dressed(event) for event in past.events]
    past.events.insert(-2, AccuracyChecked(at=past.now, trial=name, check=LOST))
    return past


def dress(launch: LaunchRecord, acceptance: float, *, is_mine: bool) -> LaunchRecord:
    runs = tuple(
        msgspec.structs.replace(
            run, metrics={**run.metrics, ACCEPTANCE: acceptance}, gpu_mb=9000.0 if is_mine else 8000.0
        )
        for run in launch.runs
    )
    return msgspec.structs.replace(launch, runs=runs)


def test_the_report_shows_memory_accuracy_and_a_collapse(config: LabConfig) -> None:
    page = document(contents(speculative(config, 1.04)))
    outline(page)
    assert "possible corruption: the acceptance length fell from 2.90 to 1.04 tokens" in page
    assert "9,000 MB, 8,000 MB on the baseline: +12.5%" in page
    assert "450 of 500 items right, 480 on the baseline" in page
    assert "Acceptance" in page
    assert "Accelerator" in page


def test_what_nobody_tells_has_no_column(config: LabConfig) -> None:
    past = History(config)
    past.baseline()
    past.trial(flags("threads", ("-t", "4")), 0.4)
    page = document(contents(past))
    assert "Acceptance" not in page
    assert "Accelerator" not in page
    assert "corruption" not in page
    assert "212 MB" in page


def test_the_terminal_shows_them_too(config: LabConfig) -> None:
    shown = render(trial_view(speculative(config, 2.8).state.trials["t0001"]))
    assert "accuracy: 450 of 500 items right, 480 on the baseline; 32 lost, 2 gained" in shown
    assert "212 MB, 9,000 MB on accelerators, acceptance 2.80" in shown
