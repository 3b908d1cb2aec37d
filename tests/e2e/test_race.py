"""Races from the command line, on a real process and a real port: known effects, a `kill -9`, a knob space."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from knowngood.model.change import ChangeSet, Flag
from knowngood.model.events import FindingRecorded
from knowngood.model.finding import Finding
from knowngood.reason.findings import change_key
from knowngood.reason.fold import fold
from knowngood.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

PACE = '[[change]]\nedit = "pace.txt"\nfind = "10"\nreplace = "{pace}"\n'
FLAG = '[[change]]\nflag = "{flag}"\nvalue = "{value}"\n'
# Every fourth, third or second gap is none at all.
SPACE = """
claim = "stalls that are none"
{budget}
[[knob]]
flag = "--stall-every"
choices = [2, 3, 4]

[[knob]]
flag = "--ttft-ms"
choices = [5, 150]

[[forbid]]
"--stall-every" = 3
"--ttft-ms" = 150
"""


def field(lab: "RealLab") -> list[str]:
    return [
        lab.experiment("pace-9", PACE.format(pace=9)),
        lab.experiment("slower", FLAG.format(flag="--ttft-ms", value=300)),
        lab.experiment("pace-5", PACE.format(pace=5)),
        lab.experiment("broken", FLAG.format(flag="--no-such-flag", value=1)),
    ]


def states(race: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["state"] for row in race["rows"]}


def test_the_best_of_files_is_kept_and_everything_is_told(measured: "RealLab", tmp_path: Path) -> None:
    files = field(measured)
    planned = measured.run("race", *files, "--dry-run", "--json")
    assert planned.status == 0, planned
    assert 4 <= planned.json["expected_launches"] <= planned.json["worst_launches"]
    done = measured.run("race", *files, "--gate", "--json")
    assert done.status == 0, done
    race = done.json
    assert (race["winner"], race["trial"]["verdict"]["decision"]) == ("pace-5", "keep")
    assert states(race)["broken"] == "failed"
    assert states(race)["slower"] == "worse"
    assert "no-such-flag" in next(row["why"] for row in race["rows"] if row["name"] == "broken")
    assert {point["name"]: point["on_front"] for point in race["points"]}["pace-5"] is True
    assert {point["name"]: point["on_front"] for point in race["points"]}["slower"] is False
    assert measured.pace.read_text() == "5 ms between tokens\n"
    measured.assert_known_good()

    shown = measured.run("show", race["id"], "--pareto", "output_tok_s,itl_p99_ms", "--json")
    assert shown.json["metrics"] == ["output_tok_s", "itl_p99_ms"]
    assert shown.json["rows"] == race["rows"]
    text = measured.run("show", race["id"])
    assert "nobody is better in both" in text.out
    report = measured.run("report", "--out", str(tmp_path / "report.html"))
    assert report.status == 0, report
    assert f'id="{race["id"]}-pareto-title"' in (tmp_path / "report.html").read_text()


def test_killed_in_the_middle_it_goes_on_where_it_was(measured: "RealLab") -> None:
    files = field(measured)
    with measured.start("race", *files) as racing:
        assert racing.stderr is not None
        for line in racing.stderr:
            if "launch 2" in line:
                break
        measured.wait_for_server()
        racing.kill()
        racing.communicate(timeout=10)
    assert measured.run("race", *files).status == 3
    assert measured.run("recover").status == 0
    assert measured.pace.read_text() == "10 ms between tokens\n"
    measured.assert_known_good()
    cut = measured.run("show", "r0001", "--json").json
    done = measured.run("race", *files, "--json")
    assert done.status == 0, done
    assert "going on with the launches of r0001" in done.err
    assert (done.json["id"], done.json["winner"]) == ("r0002", "pace-5")
    assert done.json["trial"]["verdict"]["decision"] == "keep"
    assert cut["launches"] >= 2
    launched = [row["launches"] for row in done.json["rows"] if row["name"] in ("pace-9", "slower")]
    assert launched == [1, 1], "what was launched before the kill is not launched again"
    measured.assert_known_good()


def test_a_space_is_searched_and_a_dead_end_is_never_proposed(measured: "RealLab") -> None:
    store = SqliteStore(measured.root / ".knowngood" / "store.db")
    state = fold(store.events())
    assert state.baseline is not None
    dead = ChangeSet(members=(Flag(flag="--stall-every", value="2"),))
    finding = Finding(
        id="f0001", claim="no", sign="impossible", change_key=change_key(dead), scope={}, evidence=(), quote="no"
    )
    store.append(FindingRecorded(at=state.at, finding=finding), after=state.version)
    (measured.root / "space.toml").write_text(SPACE.format(budget=""))
    done = measured.run("race", "space.toml", "--json")
    assert done.status == 0, done
    assert sorted(states(done.json)) == ["stall-every=3", "stall-every=4", "stall-every=4, ttft-ms=150"]
    assert done.json["winner"] == "stall-every=3"
    assert done.json["trial"]["verdict"]["decision"] == "keep"
    measured.assert_known_good()


def test_a_space_larger_than_its_budget_is_searched_by_optuna(measured: "RealLab") -> None:
    pytest.importorskip("optuna")
    text = SPACE.format(budget="budget = 4").replace("choices = [5, 150]", "range = [1, 40]")
    (measured.root / "space.toml").write_text(text)
    done = measured.run("race", "space.toml", "--budget", "5", "--json")
    assert done.status == 0, done
    assert len(done.json["rows"]) == 5
    assert done.json["trial"]["verdict"]["decision"] in ("keep", "inconclusive", "revert")
    measured.assert_known_good()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["one.toml"], "two candidates at least"),
        (["one.toml", "two.toml", "--budget", "3"], "--budget belongs to a knob space"),
        (["one.toml", "two.toml", "--pareto", "ttft"], "--pareto is 'ttft'"),
        (["one.toml", "twin.toml"], "the same change"),
        (["space.toml", "--budget", "soon"], "--budget is 'soon'"),
    ],
)
def test_mistakes_are_told_before_anything_starts(lab: "RealLab", args: list[str], words: str) -> None:
    for name, flag in (("one", "-a"), ("two", "-b"), ("twin", "-a")):
        lab.experiment(name, FLAG.format(flag=flag, value=1))
    (lab.root / "space.toml").write_text(SPACE.format(budget=""))
    if "twin.toml" in args:
        assert lab.run("baseline").status == 0
    done = lab.run("race", *args, "--json")
    assert done.status == 2, done
    assert words in done.json["message"]
    assert json.loads(lab.run("status", "--json").out)["status"]["known_good"] is True
