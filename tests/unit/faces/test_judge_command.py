"""``knowngood judge`` from the command line: what is printed, and the exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "arm,launch,run,metric,value,time\n"
ORDER = "NNNNNNNNCBBCCBBC"
NAMES = {"N": "noise", "C": "candidate", "B": "baseline"}


def csv(*, gain: float, metric: str = "output_tok_s", order: str = ORDER) -> str:
    rows = [
        f"{NAMES[arm]},{at},1,{metric},{100 * (1 + gain * (arm == 'C')) + at % 3 * 0.4},{at * 300}\n"
        for at, arm in enumerate(order)
    ]
    return HEAD + "".join(rows)


def judge(text: str, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a folder without a lab, the runs on its standard input."""
    return subprocess.run(
        [sys.executable, "-m", "knowngood", "judge", "-", *options],
        input=text,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_keep_says_why_in_both_forms(tmp_path: Path) -> None:
    done = judge(csv(gain=0.3), tmp_path, "--gate")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("keep  +")
    assert "pair 2  candidate 11  130.8  median of 1" in done.stdout
    told = json.loads(judge(csv(gain=0.3), tmp_path, "--json").stdout)
    assert told["schema"] == "knowngood/judge/1"
    assert told["ruling"]["verdict"]["decision"] == "keep"


def test_less_of_a_latency_is_better_by_its_name(tmp_path: Path) -> None:
    told = json.loads(judge(csv(gain=-0.3, metric="ttft_p99_ms"), tmp_path, "--json").stdout)
    assert told["ruling"]["question"]["direction"] == "lower"
    assert told["ruling"]["verdict"]["decision"] == "keep"
    done = judge(csv(gain=-0.3, metric="ttft_p99_ms"), tmp_path, "--direction", "higher", "--gate")
    assert (done.returncode, done.stdout[:6]) == (4, "revert")


def test_no_verdict_is_a_status_of_its_own(tmp_path: Path) -> None:
    done = judge(csv(gain=0.3, order="CB"), tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("undecided: no verdict yet; so far +")
    assert "needed: further launches in turns, the baseline's next" in done.stdout
    assert judge(csv(gain=0.3, order="CB"), tmp_path, "--gate").returncode == 4


def test_a_history_file_is_named_by_its_rows(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(csv(gain=0, order="NNNNNNNN"))
    told = json.loads(judge(csv(gain=0.3, order="CBBC"), tmp_path, "--json", "--noise", "old.csv").stdout)
    assert len(told["ruling"]["noise"]) == 4
    assert told["ruling"]["verdict"]["decision"] == "keep"


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (HEAD + "baseline,1,1,m,x,0\n", (), "standard input, line 2, column value: 'x' is not a number above 0"),
        (csv(gain=0) + "noise,99,1,ttft_p50_ms,5,9999\n", (), "standard input has several metrics"),
        (csv(gain=0), ("--worthwhile", "2"), "--worthwhile is '2'"),
        (csv(gain=0), ("--profile", "sloppy"), "there is no verdict profile 'sloppy'"),
        (csv(gain=0), ("--noise", "none.csv"), "there is no file none.csv"),
        (csv(gain=0), ("--metric", "x"), "standard input has no metric 'x'"),
    ],
)
def test_wrong_input_is_a_usage_error(tmp_path: Path, text: str, options: tuple[str, ...], says: str) -> None:
    done = judge(text, tmp_path, *options)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
