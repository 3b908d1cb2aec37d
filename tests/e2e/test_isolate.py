"""Isolation from the command line: a flag that the server refuses, a pair that fails together, a controller killed."""

import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

HARMLESS = "".join(f'[[change]]\nenv = "KG_{name}"\nvalue = "1"\n' for name in "ABC")
EDIT = '[[change]]\nedit = "pace.txt"\nfind = "between"\nreplace = "among"\n'
SIX = f'{HARMLESS}[[change]]\nflag = "--ttft-ms"\nvalue = "6"\n{EDIT}'
REFUSED = '[[change]]\nflag = "--no-such-flag"\nvalue = "1"\n'
PAIR = """\
import os
if os.environ.get("KG_A") and "among" in Path(__file__).with_name("pace.txt").read_text():
    raise RuntimeError("two caches cannot share one arena")
"""


def with_a_pair_that_clashes(lab: "RealLab") -> None:
    server = lab.root / "server.py"
    first, second = server.read_text().split("pace = ")
    server.write_text(f"{first}{PAIR}pace = {second}")


def test_a_void_trial_names_the_command_that_finds_the_culprit(measured: "RealLab") -> None:
    before = measured.pace.read_bytes()
    name = measured.experiment("six", SIX + REFUSED)
    tried = measured.run("try", name, "--json")
    assert tried.status == 1, tried
    (trial,) = tried.json["trials"]
    assert trial["next"] == "knowngood isolate t0001"
    assert "which member did it: knowngood isolate t0001" in measured.run("show", "six").out

    shown = measured.run("isolate", name, "--dry-run", "--json")
    assert shown.status == 0, shown
    assert (len(shown.json["items"]), shown.json["expected_launches"]) == (6, 2)
    assert "at most" in measured.run("isolate", name, "--dry-run").out

    done = measured.run("isolate", "t0001", "--json", "--out", "rest.toml")
    assert done.status == 0, done
    (culprit,) = done.json["culprits"]
    assert culprit["members"] == ["flag --no-such-flag 1"]
    assert culprit["alone"] is True
    assert "unrecognized arguments" in culprit["why"]
    assert [row["outcome"] for row in done.json["launches"]] == ["passed", "failed"]
    assert len(done.json["survivors"]) == 5
    assert done.json["trial"]["verdict"]["decision"] in ("revert", "inconclusive")
    assert done.json["next"] == ""
    assert measured.pace.read_bytes() == before
    measured.assert_known_good()

    assert measured.run("try", "rest.toml", "--dry-run").status == 0
    assert 'flag = "--no-such-flag"' not in (measured.root / "rest.toml").read_text()
    text = measured.run("show", "i0001")
    assert "flag --no-such-flag 1 fails alone" in text.out, text
    assert measured.run("findings", "--json").json["findings"][-1]["evidence"] == ["i0001", "t0001"]
    assert measured.run("report", "--out", "report.html").status == 0


def test_a_pair_that_fails_only_together_is_named(lab: "RealLab") -> None:
    with_a_pair_that_clashes(lab)
    assert lab.run("baseline").status == 0
    done = lab.run("isolate", lab.experiment("pair", SIX), "--no-trial", "--json")
    assert done.status == 0, done
    (culprit,) = done.json["culprits"]
    assert culprit["alone"] is False
    named = {*culprit["members"], *culprit["beside"]}
    assert named == {"env KG_A=1", f"edit {lab.pace}"}
    assert len(done.json["survivors"]) == 4
    assert done.json["next"] == "knowngood isolate i0001"
    lab.assert_known_good()


def test_killed_in_the_middle_it_goes_on_with_what_it_knows(lab: "RealLab") -> None:
    with_a_pair_that_clashes(lab)
    before = lab.pace.read_bytes()
    assert lab.run("baseline").status == 0
    name = lab.experiment("pair", SIX)
    with lab.start("isolate", name, "--no-trial", "--json") as isolating:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            shown = lab.run("show", "i0001", "--json")
            if shown.status == 0 and len(shown.json["launches"]) > 1:
                break
        lab.wait_for_server()
        isolating.send_signal(signal.SIGKILL)
        lab.finish(isolating)
    known = lab.run("show", "i0001", "--json").json
    assert (known["done"], known["next"]) == (False, "knowngood isolate i0001")

    done = lab.run("isolate", "i0001", "--no-trial", "--json")
    assert done.status == 0, done
    assert f"going on with {len(known['launches'])} launches of i0001" in done.err
    assert done.json["id"] == "i0002"
    launches = [tuple(row["items"]) for row in done.json["launches"]]
    assert done.json["launches"][: len(known["launches"])] == known["launches"]
    assert len(set(launches)) == len(launches), "launched twice"
    assert {*done.json["culprits"][0]["members"], *done.json["culprits"][0]["beside"]} == {
        "env KG_A=1",
        f"edit {lab.pace}",
    }
    assert lab.pace.read_bytes() == before
    lab.assert_known_good()


def test_a_surprise_is_taken_apart_by_what_is_measured(measured: "RealLab") -> None:
    slow = '[[change]]\nflag = "--ttft-ms"\nvalue = "400"\n'
    predicted = 'predicts = { metric = "output_tok_s", change = ["+5%", "+20%"] }\n'
    tried = measured.run("try", measured.experiment("slow", predicted + HARMLESS + slow), "--json")
    (trial,) = tried.json["trials"]
    assert trial["verdict"]["reason"] == "regression", tried
    assert trial["next"] == "knowngood isolate t0001"
    done = measured.run("isolate", "t0001", "--no-trial", "--json", timeout=240)
    assert done.status == 0, done
    assert (done.json["kind"], len(done.json["launches"])) == ("effect", 8)
    (hurts,) = [one for one in done.json["culprits"] if one["high"] < 0]
    assert hurts["members"] == ["flag --ttft-ms 400"]
    assert "hurts" in measured.run("show", "i0001").out
    measured.assert_known_good()


def test_what_cannot_be_isolated_says_so(measured: "RealLab") -> None:
    alone = measured.run("isolate", measured.experiment("alone", REFUSED))
    assert alone.status == 2, alone
    assert "nothing that could be left out" in alone.err
    assert measured.run("isolate", "nowhere").status == 2
    taken = measured.run("isolate", measured.experiment("six", SIX), "--out", "six.toml")
    assert taken.status == 2, taken
    assert "stands there already" in taken.err
    measured.assert_known_good()
