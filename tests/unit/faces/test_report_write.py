"""The report of a real lab folder: what is read from disk, and what happens where that fails."""

from pathlib import Path

import pytest

from knowngood.app.lab import Lab
from knowngood.errors import UsageError
from knowngood.faces.report import write_report
from knowngood.faces.report.plot import overview_svg
from knowngood.model.baseline import Baseline
from knowngood.model.events import BaselineRecorded, BaselineStarted

LAB = """
[server]
engine = "command"
command = ["true"]
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("KNOWNGOOD_STATE", str(tmp_path / "state"))
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "knowngood.toml").write_text(LAB)
    return Lab(folder)


def test_a_new_lab_is_at_known_good_and_has_nothing_to_show(lab: Lab, tmp_path: Path) -> None:
    write_report(lab, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "No baseline yet" in page
    assert "nothing left over" in page


def test_what_was_cut_off_and_what_drifted_is_named(lab: Lab, tmp_path: Path) -> None:
    spec = lab.config.spec
    managed = str(tmp_path / "scheduler.py")
    baseline = Baseline(version=1, spec=spec, origin=spec, files={managed: "0" * 64})
    lab.memory.record(BaselineStarted(at=1.0, run="b0001", baseline=baseline, launches=2))
    lab.memory.record(BaselineRecorded(at=2.0, run="b0001", baseline=baseline, noise={}))
    lab.memory.record(BaselineStarted(at=3.0, run="b0002", baseline=baseline, launches=2))
    write_report(lab, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not at known-good" in page
    assert "b0002 never ended" in page
    assert f"drift: {managed}" in page


def test_a_broken_experiment_file_does_not_hide_the_rest(lab: Lab, tmp_path: Path) -> None:
    (lab.config.root / "experiments").mkdir()
    (lab.config.root / "experiments" / "bad.toml").write_text("claim = 3")
    write_report(lab, tmp_path / "report.html")
    assert "The plan shows tried hypotheses only" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_place_that_cannot_be_written_is_a_usage_error(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write_report(lab, tmp_path / "no" / "such" / "folder.html")


def test_the_overview_is_a_drawing_of_its_own(lab: Lab) -> None:
    assert overview_svg(lab).startswith("<svg ")
