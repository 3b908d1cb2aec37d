"""The command as people run it: numbers, a trace, a trial. Every experiment that it writes is one that `try` takes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

DATA = Path(__file__).parents[1] / "data" / "steptime"
FOUNDING = str(DATA / "founding.toml")
TRACES = sorted(map(str, DATA.glob("*.trace.json.gz")))
SGLANG = (
    "_is_sm90_supported = _is_sm100_supported = _is_sm120_supported = False\n"
    "fused = (_is_sm90_supported or _is_sm100_supported)\n"
)


def test_the_founding_case_in_a_directory_without_a_lab(lab: "RealLab", tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    command = [sys.executable, "-m", "knowngood", "explain", FOUNDING, "--what-if", "allreduce_us=50"]
    done = subprocess.run(command, cwd=away, env=lab.env, capture_output=True, text=True, check=True)
    for line in (
        "principal cost: all-reduce beyond that, 20.7 ms; without it at most × 2.92, 175 tok/s at most",
        "it does not pay: 60 tok/s with it, 82 without",
        "it pays from 2.46 to 2.71 tokens a round on: acceptance 0.81 to 0.90",
        "allreduce_us = 50: 17.9 ms saved, 131 to 149 tok/s with speculation, 83 without: pays",
        "impossible: these 122 collectives cannot cost 200 µs each",
    ):
        assert line in done.stdout
    assert os.listdir(away) == []  # noqa: PTH208  (names only)


def test_numbers_on_the_command_line_and_json(lab: "RealLab") -> None:
    numbers = ("model.layers=61", "model.hidden=7168", "baseline.tok_s=82", "speculation.tok_s=60", "hardware.gpus=8")
    more = ('hardware.link="pcie"', "speculation.verify_ms=30", "speculation.collective_ms=24", "speculation.drafts=2")
    done = lab.run("explain", *(word for number in (*numbers, *more) for word in ("--set", number)), "--json")
    assert done.status == 0, done
    assert done.json["schema"] == "knowngood/explain/1"
    assert done.json["explanation"]["economics"]["base_tok_s"] == pytest.approx(82)
    assert done.json["explanation"]["budget"]["principal"]["kind"] == "waiting"
    assert done.json["facts"]["model"]["layers"] == 61


def test_a_trace_of_two_ranks(lab: "RealLab") -> None:
    done = lab.run("explain", *TRACES, "--json")
    assert done.status == 0, done
    shown = done.json["explanation"]
    assert sum(line["ms"] for line in shown["budget"]["lines"]) == pytest.approx(shown["budget"]["ms"], rel=0.02)
    assert shown["collectives"][0]["wait_us"] > 0
    assert shown["economics"] is None


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "there is nothing to explain"),
        (("none.json",), "none.json cannot be read"),
        (("server.py",), "server.py is nothing that we can read"),
        ((FOUNDING, FOUNDING), "two facts files were named"),
        (("--set", "baseline.toks=1"), "unknown key 'toks'"),
        (("--set", "base.tok_s=1"), "there is no table 'base'"),
        (("--set", "baseline.tok_s"), "--set baseline.tok_s is none"),
        (("--set", "baseline.tok_s=-1"), "tok_s is -1"),
        (("--set", "baseline.tok_s=fast"), "Expected `float | null`, got `str`"),
        ((FOUNDING, "--what-if", "allreduce=5"), "unknown key 'allreduce'"),
        ((FOUNDING, "--what-if", "allreduce_us=0"), "allreduce_us is 0"),
        (("--from-trial", "t0001"), "there is no trial 't0001'"),
    ],
)
def test_wrong_input_is_told(lab: "RealLab", args: tuple[str, ...], says: str) -> None:
    done = lab.run("explain", *args)
    assert done.status == 2, done
    assert says in done.err


@pytest.mark.parametrize("engine", ["sglang", "vllm", "llamacpp"])
def test_every_experiment_that_is_written_passes_a_dry_run(measured: "RealLab", engine: str) -> None:
    package = measured.root / "sglang" / "srt" / "layers"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "communicator.py").write_text(SGLANG)
    env = {"PYTHONPATH": os.pathsep.join((str(measured.root), os.environ.get("PYTHONPATH", "")))}
    written = measured.run(
        "explain",
        FOUNDING,
        "--set",
        f"server.engine={engine}",
        "--set",
        'server.version="0.5.9"',
        "--write",
        "ladder",
        "--json",
    )
    assert written.status == 0, written
    files = written.json["files"]
    assert len(files) >= 5
    assert any("widen-fusion-gate" in file for file in files) == (engine == "sglang")
    command = [sys.executable, "-m", "knowngood", "try", *files, "--dry-run"]
    done = subprocess.run(
        command, cwd=measured.root, env=measured.env | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert all(f"{Path(file).stem} would start" in done.stdout for file in files)
    again = measured.run("explain", FOUNDING, "--set", f"server.engine={engine}", "--write", "ladder")
    assert again.status == 2
    measured.assert_known_good()


def test_rates_of_a_trial(measured: "RealLab") -> None:
    nothing = measured.experiment("nothing", "")
    tried = measured.run("try", nothing, "--json")
    name = tried.json["trials"][0]["id"]
    done = measured.run("explain", "--from-trial", name, "--json")
    assert done.status == 0, done
    # The server sends a token every 10 ms.
    assert done.json["facts"]["baseline"]["tok_s"] == pytest.approx(100, rel=0.15)
    notes = done.json["explanation"]["notes"]
    assert any(f"{name}: the baseline does not speculate" in note for note in notes), notes
