"""Guards and the host guard from the command line, on a real process and a real port."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Finished, RealLab

pytestmark = pytest.mark.e2e

FASTER = '[[change]]\nedit = "pace.txt"\nfind = "10"\nreplace = "5"\n'
# A server that holds ballast, and gets every fifth whole answer wrong, if its environment says so.
SERVER = """\
import os
import sys
from pathlib import Path
from typing import Any
from knowngood.testing import sse_server
ballast = b"x" * (int(os.environ.get("BALLAST_MB", "0")) * 1_000_000)
really_write, answers = sse_server.Server._write_json, 0
def write(self: Any, value: Any, status: int = 200) -> None:
    global answers
    if "choices" in value:
        answers += 1
        if os.environ.get("WRONG") and answers % 5 == 0:
            value["choices"][0]["text"] = " a"
    really_write(self, value, status)
sse_server.Server._write_json = write
pace = Path(__file__).with_name("pace.txt").read_text().split()[0]
sse_server.main([*sys.argv[1:], "--itl-ms", pace])
"""
EXAM = """\
import json, sys, urllib.request
url, model = sys.argv[1:]
for item in range(400):
    body = json.dumps({"model": model, "prompt": f"question {item}", "max_tokens": 1}).encode()
    request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
    said = json.load(urllib.request.urlopen(request))["choices"][0]["text"]
    print(json.dumps({"item": item, "right": said == " the", "said": said}))
"""
NVIDIA_SMI = """\
#!{python}
import os, sys
from pathlib import Path
if "--query-gpu" in sys.argv[1]:
    print("1980, 61, 700.00, 575.57.08, 0x0000000000000004, 0, 0")
    raise SystemExit
for folder in Path("/proc").iterdir():
    try:
        if folder.name.isdigit() and {server!r} in (folder / "cmdline").read_text():
            print(f"{{folder.name}}, 8000, /opt/venv/bin/python3")
    except OSError:
        pass
if {always} or Path({pace!r}).read_text().startswith("5"):
    print("{stranger}, 512, /usr/bin/train")
"""


def only_trial(done: "Finished") -> Any:
    (trial,) = done.json["trials"]
    return trial


def prepare(lab: "RealLab", text: str = "") -> None:
    (lab.root / "server.py").write_text(SERVER)
    file = lab.root / "knowngood.toml"
    file.write_text(file.read_text() + text)
    done = lab.run("baseline", "--json")
    assert done.status == 0, done


def test_a_candidate_that_allocates_is_reverted_however_fast_it_is(lab: "RealLab") -> None:
    prepare(lab)
    heavy = lab.experiment("heavy", FASTER + '[[change]]\nenv = "BALLAST_MB"\nvalue = "40"\n')
    trial = only_trial(lab.run("try", heavy, "--json"))
    assert (trial["verdict"]["decision"], trial["verdict"]["reason"]) == ("revert", "guard"), trial
    assert "server memory" in trial["verdict"]["why"]
    candidate, baseline = trial["launches"]
    assert candidate["rss_mb"] > baseline["rss_mb"] + 35
    lab.assert_known_good()
    light = lab.run("try", lab.experiment("light", FASTER), "--json")
    assert only_trial(light)["verdict"]["decision"] == "keep", light


ACCURACY = '\n[accuracy]\ncommand = [{python}, {exam}, "{{url}}", "{{model}}"]\n'


def test_a_real_accuracy_command_decides_what_is_right(lab: "RealLab") -> None:
    exam = lab.root / "exam.py"
    exam.write_text(EXAM)
    file = lab.root / "knowngood.toml"
    file.write_text(file.read_text().replace('answers = "off"', 'answers = "accuracy"\nmemory = "10%"'))
    prepare(lab, ACCURACY.format(python=json.dumps(sys.executable), exam=json.dumps(str(exam))))
    wrong = lab.experiment("wrong", FASTER + '[[change]]\nenv = "WRONG"\nvalue = "1"\n')
    trial = only_trial(lab.run("try", wrong, "--json"))
    assert (trial["verdict"]["decision"], trial["verdict"]["reason"]) == ("revert", "guard"), trial
    assert "guard accuracy: 320 of 400 items right, 400 on the baseline" in trial["verdict"]["why"]
    assert (trial["accuracy"]["lost"], trial["accuracy"]["gained"]) == (80, 0)
    kept = lab.root / ".knowngood" / "artifacts"
    stored = [path.read_text() for path in kept.rglob(f"*{trial['accuracy']['output'][2:]}*")]
    assert stored
    assert '"said": " a"' in stored[0]
    right = lab.run("try", lab.experiment("right", FASTER), "--json")
    assert only_trial(right)["verdict"]["decision"] == "keep", right
    report = lab.run("report", "--out", str(lab.root / "report.html"))
    assert report.status == 0, report
    assert "320 of 400 items right" in (lab.root / "report.html").read_text()


def test_goodput_can_decide_and_says_what_it_needs(lab: "RealLab") -> None:
    file = lab.root / "knowngood.toml"
    asked = file.read_text().replace('metric = "output_tok_s"', 'metric = "goodput_s"')
    file.write_text(asked)
    refused = lab.run("baseline", "--json")
    assert refused.status == 2, refused
    assert "says of no request whether it is good" in refused.json["message"]
    assert "slo = {" in refused.json["hint"]
    file.write_text(asked.replace("osl = 16", "osl = 16\nslo = { ttft_ms = 400, tpot_ms = 100 }"))
    prepare(lab)
    faster = lab.run("try", lab.experiment("faster", FASTER), "--json")
    assert only_trial(faster)["verdict"]["decision"] == "keep", faster
    late = lab.experiment("late", '[[change]]\nflag = "--ttft-ms"\nvalue = "900"\n')
    trial = only_trial(lab.run("try", late, "--json"))
    assert trial["verdict"]["decision"] == "void"
    assert "no request kept the limits" in trial["verdict"]["why"]
    lab.assert_known_good()


@pytest.mark.parametrize("always", [False, True], ids=["beside the candidate only", "beside both"])
def test_a_stranger_on_the_accelerator_voids_only_if_it_takes_sides(
    lab: "RealLab", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, always: bool
) -> None:
    """The accelerator's tool is the one thing that this machine lacks, so it is played."""
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "nvidia-smi"
    with subprocess.Popen(["sleep", "300"]) as stranger:
        try:
            names = {"server": str(lab.root / "server.py"), "pace": str(lab.pace), "stranger": stranger.pid}
            tool.write_text(NVIDIA_SMI.format(python=sys.executable, always=always, **names))
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
            monkeypatch.setenv("PATH", str(tools), prepend=":")
            prepare(lab)
            done = lab.run("try", lab.experiment("faster", FASTER), "--json")
            doctor = lab.run("doctor", "--seconds", "0.1", "--json")
        finally:
            stranger.kill()
    trial = only_trial(done)
    if always:
        assert trial["verdict"]["decision"] == "keep", trial
    else:
        assert trial["verdict"]["decision"] == "void", trial
        assert f"process {stranger.pid} (/usr/bin/train)" in trial["verdict"]["why"]
        assert len(trial["repeats"]) == 3
    assert trial["launches"][0]["gpu_mb"] == pytest.approx(8000 * 1.048576)
    assert doctor.json["watched"]["accelerators"] == "1, driver 575.57.08"
    lab.assert_known_good()


def test_doctor_says_what_this_host_can_be_watched_for(lab: "RealLab") -> None:
    shown = lab.run("doctor", "--seconds", "0.1", "--json")
    assert shown.status == 0, shown
    assert "swapping" in shown.json["watched"]
    told = lab.run("doctor", "--seconds", "0.1").out
    assert "watched: swapping, now " in told
    for name in shown.json["unwatched"]:
        assert name in told
