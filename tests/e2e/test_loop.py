"""The loop from the command line, on a real process and a real port."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

FASTER_EDIT = """
[[change]]
edit = "pace.txt"
find = "10"
replace = "5"
"""
SLOWER = """
[[change]]
flag = "--ttft-ms"
value = "300"
"""


def test_an_edit_that_helps_is_kept_and_undone(measured: "RealLab") -> None:
    before = measured.pace.read_bytes()
    tried = measured.run("try", measured.experiment("faster", FASTER_EDIT), "--json")
    assert tried.status == 0, tried
    (trial,) = tried.json["trials"]
    assert trial["verdict"]["decision"] == "keep"
    assert trial["verdict"]["low"] < 0.9 < trial["verdict"]["high"]
    assert measured.pace.read_bytes() == before.replace(b"10", b"5")
    measured.assert_known_good()

    undone = measured.run("undo")
    assert undone.status == 0, undone
    assert measured.pace.read_bytes() == before
    measured.assert_known_good()


def test_a_flag_that_hurts_is_reverted(measured: "RealLab") -> None:
    tried = measured.run("try", measured.experiment("slower", SLOWER), "--json")
    (trial,) = tried.json["trials"]
    assert (trial["verdict"]["decision"], trial["verdict"]["reason"]) == ("revert", "regression"), tried
    assert measured.run("try", measured.experiment("slower2", SLOWER), "--gate").status == 4
    measured.assert_known_good()


def test_a_null_change_is_not_kept(measured: "RealLab") -> None:
    tried = measured.run("try", measured.experiment("null", ""), "--json")
    assert tried.json["trials"][0]["verdict"]["decision"] in ("revert", "inconclusive"), tried


def test_a_dry_run_shows_diff_and_price_and_starts_nothing(measured: "RealLab") -> None:
    shown = measured.run("try", measured.experiment("faster", FASTER_EDIT), "--dry-run", "--json")
    assert shown.status == 0, shown
    assert "-10 ms between tokens\n+5 ms between tokens" in shown.json["diffs"][0]["diff"]
    assert shown.json["worst_min"] > 0
    assert measured.run("plan", "--json").json["hypotheses"] == []


def test_what_was_learned_is_shown_everywhere(measured: "RealLab", tmp_path: Path) -> None:
    name = measured.experiment("faster", FASTER_EDIT)
    assert measured.run("try", name).status == 0
    assert measured.run("findings", "--json").json["findings"][0]["sign"] == "helps"
    assert measured.run("show", "faster", "--json").json["verdict"]["decision"] == "keep"
    assert measured.run("plan", "--json").json["hypotheses"][0]["state"] == "kept"
    exported = measured.run("export", "--out", str(tmp_path / "out"), "--json")
    assert exported.status == 0, exported
    script, patch = (Path(file) for file in exported.json["files"])
    assert "+5 ms between tokens" in patch.read_text()
    subprocess.run(["sh", "-n", str(script)], check=True)
    report = measured.run("report", "--out", str(tmp_path / "report.html"))
    assert report.status == 0, report
    assert "faster" in (tmp_path / "report.html").read_text()
    for command in ("doctor", "status", "findings", "plan"):
        shown = measured.run(command)
        assert shown.status == 0, shown


def test_the_exported_patch_makes_the_known_good_out_of_the_original(measured: "RealLab", tmp_path: Path) -> None:
    before = measured.pace.read_bytes()
    assert measured.run("try", measured.experiment("faster", FASTER_EDIT)).status == 0
    after = measured.pace.read_bytes()
    assert measured.run("export", "--out", str(tmp_path / "out")).status == 0
    measured.pace.write_bytes(before)
    patch = (tmp_path / "out" / "files.patch").read_bytes()
    subprocess.run(["git", "apply", "--unsafe-paths", "--directory=/", "-p1"], input=patch, check=True, cwd="/")
    assert measured.pace.read_bytes() == after


def test_serve_becomes_the_known_good_server(measured: "RealLab") -> None:
    with measured.start("serve") as served:
        try:
            assert measured.wait_for_server() == served.pid
        finally:
            served.terminate()
            served.communicate(timeout=10)


def test_init_adopts_a_server_that_runs_and_leaves_it_alone(lab: "RealLab", tmp_path: Path) -> None:
    folder = tmp_path / "adopted"
    with subprocess.Popen([sys.executable, str(lab.root / "server.py"), "--port", str(lab.port)]) as server:
        try:
            lab.wait_for_server()
            made = lab.run("init", "--pid", str(server.pid), "--dir", str(folder))
            assert made.status == 0, made
            assert server.poll() is None
        finally:
            server.terminate()
    text = (folder / "knowngood.toml").read_text()
    assert json.dumps(str(lab.root / "server.py")) in text
    assert f"port = {lab.port}" in text
    assert lab.run("status", "--lab", str(folder)).status == 0
