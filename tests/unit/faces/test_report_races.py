"""Races in the report and on the terminal: everybody, what came out, who is on the front."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

from knowngood.config.lab import LabConfig, load_lab
from knowngood.faces.races import race_text, race_view
from knowngood.faces.report.contents import Contents, HostState
from knowngood.faces.report.page import document
from knowngood.faces.report.races import races_chapter
from knowngood.model.change import ChangeSet, Flag
from knowngood.model.events import Event, LaunchFailed, LaunchMeasured, RaceEnded, RaceStarted
from knowngood.model.evidence import LaunchRecord, RunRecord
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.race import Standing
from knowngood.reason.fold import fold
from knowngood.reason.pareto import pareto
from knowngood.reason.records import RaceRun

METRICS = ("output_tok_s", "ttft_p99_ms")
EVIL = "<b>slots & threads</b>"


@pytest.fixture
def config(tmp_path: Path) -> LabConfig:
    (tmp_path / "knowngood.toml").write_text('[server]\nengine = "openai"\ncommand = ["x"]\n[[workload]]\nname = "w"\n')
    return load_lab(tmp_path)


def launch(candidate: str, index: int, tok_s: float, ttft: float) -> LaunchRecord:
    run = RunRecord(workload="w", metrics={"output_tok_s": tok_s, "ttft_p99_ms": ttft}, seconds=10.0)
    return LaunchRecord(
        arm="candidate" if candidate else "baseline",
        candidate=candidate,
        index=index,
        started_at=60.0 * index,
        ready_s=2.0,
        runs=(run,),
        value=tok_s,
    )


def events(*, ended: bool = True) -> Sequence[Event]:
    names = (EVIL, "quick", "worse", "broken")
    field = tuple(
        Hypothesis(name=name, claim=name, changes=ChangeSet(members=(Flag(flag=f"--{at}"),)))
        for at, name in enumerate(names)
    )
    started = RaceStarted(
        at=1.0, race="r0001", key="k", baseline=1, profile="standard", candidates=field, metrics=METRICS
    )
    measured = [
        launch("", 0, 100.0, 50.0),
        launch(EVIL, 1, 200.0, 60.0),
        launch("quick", 2, 120.0, 20.0),
        launch("worse", 3, 80.0, 90.0),
    ]
    failed = LaunchFailed(at=5.0, run="r0001", arm="candidate", index=4, why="it ended", candidate="broken")
    found: list[Event] = [started, *(LaunchMeasured(at=2.0, run="r0001", launch=one) for one in measured), failed]
    standings = (
        Standing(name=EVIL, state="winner", launches=1, estimate=0.9, sd=0.02),
        Standing(name="quick", state="behind", launches=1, estimate=0.2, sd=0.02, block=1),
        Standing(name="worse", state="worse", launches=1, estimate=-0.2, sd=0.02, block=1),
        Standing(name="broken", state="failed", block=1),
    )
    if ended:
        found.append(RaceEnded(at=600.0, race="r0001", winner=EVIL, why=f"{EVIL} leads", standings=standings))
    return found


def race(*, ended: bool = True) -> RaceRun:
    return fold(enumerate(events(ended=ended), start=1)).races["r0001"]


def contents(config: LabConfig, *, ended: bool = True) -> Contents:
    state = fold(enumerate(events(ended=ended), start=1))
    return Contents(config=config, state=state, host=HostState(known_good=True))


def test_a_race_is_told_completely(config: LabConfig) -> None:
    chapter = races_chapter(contents(config))
    assert chapter is not None
    ET.fromstring(chapter)  # noqa: S314  (our own)
    for words in (
        "winner",
        "behind",
        "it ended",
        "dropped out after block 1",
        "&lt;b&gt;slots &amp; threads&lt;/b&gt;",
    ):
        assert words in chapter
    assert EVIL not in chapter
    assert 'href="#races"' in document(contents(config))


def test_the_figure_tells_the_front(config: LabConfig) -> None:
    chapter = races_chapter(contents(config)) or ""
    told = chapter.partition('id="r0001-pareto-desc">')[2].partition("<")[0]
    assert "quick: 120 tok/s, 20 ms, not beaten in both" in told
    assert "worse: 80 tok/s, 90 ms;" in told or told.endswith("worse: 80 tok/s, 90 ms")
    assert "baseline: 100 tok/s, 50 ms, not beaten" not in told


def test_a_race_that_was_cut_off_shows_who_was_launched(config: LabConfig) -> None:
    chapter = races_chapter(contents(config, ended=False))
    assert chapter is not None
    assert "not ended" in chapter
    assert chapter.count("running") == 3


def test_a_lab_without_races_has_no_chapter(config: LabConfig) -> None:
    page = document(Contents(config=config, state=fold(()), host=HostState(known_good=True)))
    assert "Races" not in page


def test_a_race_as_text() -> None:
    run = race()
    points = pareto(run.launches, METRICS, workload="w", lower_is_better=(False, True))
    text = race_text(race_view(run, points, metrics=METRICS, trial=None), "")
    lines = text.splitlines()
    assert lines[0] == f"r0001  {EVIL} leads"
    assert "+90.0% ± 2.0%" in lines[1]
    assert "it ended" in lines[4]
    assert [line.split()[0] for line in lines[6:]] == ["*", "*", "baseline", "worse"]
