"""Pins, settings and compile caches from the command line, on a real process, real wheels and real values."""

import base64
import hashlib
import json
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import knowngood

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

PINNED_SERVER = """\
import os, sys
from pathlib import Path
from knowngood.testing.sse_server import main
try:
    from pacing_kit import PACE as pace
except ImportError:
    pace = Path(__file__).with_name("pace.txt").read_text().split()[0]
Path(__file__).with_name("environ.txt").write_text("\\n".join(f"{k}={v}" for k, v in os.environ.items()))
main([*sys.argv[1:], "--itl-ms", pace])
"""


def wheel(folder: Path, version: str, pace: str) -> Path:
    """A wheel of ``pacing-kit``, as a build tool would make it."""
    folder.mkdir(exist_ok=True)
    info = f"pacing_kit-{version}.dist-info"
    content = {
        "pacing_kit.py": f"PACE = {pace!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: pacing-kit\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }

    def line(name: str, text: str) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(text)}"

    record = "\n".join([*(line(name, text) for name, text in content.items()), f"{info}/RECORD,,", ""])
    path = folder / f"pacing_kit-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**content, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    house = tmp_path / "wheelhouse"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(house))
    wheel(house, "2.0", "5")
    wheel(house, "1.0", "300")
    return house


@pytest.fixture
def pinned(wheels: Path, anywhere: "RealLab") -> "RealLab":
    lab = anywhere
    (lab.root / "server.py").write_text(PINNED_SERVER)
    done = lab.run("baseline", "--json")
    assert done.status == 0, done
    return lab


def environ(lab: "RealLab") -> dict[str, str]:
    """Environment of the server that was started last."""
    return dict(line.split("=", 1) for line in (lab.root / "environ.txt").read_text().splitlines() if "=" in line)


def baseline_of(lab: "RealLab") -> dict[str, Any]:
    from knowngood.app.lab import Lab

    found = Lab(lab.root).state.baseline
    assert found is not None
    return {"pins": found.pins, "path": found.spec.env.get("PYTHONPATH", ""), "env": found.spec.env}


def test_a_pin_that_helps_is_kept_without_touching_the_environment(pinned: "RealLab", tmp_path: Path) -> None:
    before = subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, check=True).stdout
    tried = pinned.run("try", pinned.experiment("faster", '[[change]]\npin = "pacing-kit == 2.0"\n'), "--json")
    assert tried.status == 0, tried
    (trial,) = tried.json["trials"]
    assert trial["verdict"]["decision"] == "keep", tried
    (proof,) = trial["proofs"]
    assert proof["holds"] is True
    assert "pacing-kit 2.0" in proof["evidence"]
    kept = baseline_of(pinned)
    overlay = Path(kept["path"].split(":")[0])
    assert kept["pins"] == ("pacing-kit==2.0",)
    assert overlay.parent.parent == pinned.root / ".knowngood" / "overlays"
    assert [path.name for path in (overlay.parent / "wheels").iterdir()] == ["pacing_kit-2.0-py3-none-any.whl"]
    assert subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, check=True).stdout == before

    exported = pinned.run("export", "--out", str(tmp_path / "out"), "--json")
    script = Path(exported.json["files"][0]).read_text()
    assert str(overlay) in script
    assert "pacing-kit==2.0" in script

    worse = pinned.run("try", pinned.experiment("slower", '[[change]]\npin = "pacing-kit==1.0"\n'), "--json")
    assert worse.json["trials"][0]["verdict"]["reason"] == "regression", worse
    assert pinned.run("undo").status == 0
    assert baseline_of(pinned)["path"].split(":")[0] != str(overlay)
    pinned.assert_known_good()


def test_an_overlay_is_built_once_and_rebuilt_if_it_was_changed(pinned: "RealLab", wheels: Path) -> None:
    name = pinned.experiment("faster", '[[change]]\npin = "pacing-kit==2.0"\n')
    assert pinned.run("try", name, "--dry-run").status == 0
    (site,) = (pinned.root / ".knowngood" / "overlays").glob("*/site")
    built = site.stat().st_mtime_ns
    assert pinned.run("try", name, "--dry-run").status == 0
    assert site.stat().st_mtime_ns == built
    (site / "pacing_kit.py").write_text("PACE = '1'\n")
    assert pinned.run("try", name, "--dry-run").status == 0
    assert "'5'" in (site / "pacing_kit.py").read_text()


def test_a_pin_that_cannot_be_built_fails_before_anything_starts(pinned: "RealLab") -> None:
    done = pinned.run("try", pinned.experiment("none", '[[change]]\npin = "pacing-kit==9.9"\n'), "--json")
    assert done.status == 2, done
    assert done.json["error"] == "Refused"
    assert "No matching distribution found for pacing-kit==9.9" in done.json["message"]
    assert not list((pinned.root / ".knowngood" / "overlays").iterdir())
    pinned.assert_known_good()


def test_an_interpreter_that_ignores_the_path_is_refused(lab: "RealLab", wheels: Path) -> None:
    text = (lab.root / "knowngood.toml").read_text()
    isolated = text.replace(f"[{json.dumps(sys.executable)}, ", f'[{json.dumps(sys.executable)}, "-I", ')
    assert isolated != text
    (lab.root / "knowngood.toml").write_text(isolated)
    # Isolated, it must be told where our package is.
    own = f"import sys; sys.path.insert(0, {str(Path(knowngood.__file__).parents[1])!r})\n"
    (lab.root / "server.py").write_text(own + (lab.root / "server.py").read_text())
    assert lab.run("baseline").status == 0
    done = lab.run("try", lab.experiment("p", '[[change]]\npin = "pacing-kit==2.0"\n'), "--json")
    assert done.status == 2, done
    assert "-I, which ignores PYTHONPATH" in done.json["message"]


@pytest.fixture
def named_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user has named a cache; before the lab's host is reached, whose environment it has to be in."""
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/mine")


@pytest.mark.usefixtures("named_cache")
def test_a_candidate_with_edits_compiles_into_caches_of_its_own(pinned: "RealLab") -> None:
    text = '[[change]]\nedit = "pace.txt"\nfind = "10"\nreplace = "5"\n'
    tried = pinned.run("try", pinned.experiment("faster", text), "--json")
    assert tried.json["trials"][0]["verdict"]["decision"] == "keep", tried
    own = baseline_of(pinned)["env"]
    folder = pinned.root / ".knowngood" / "caches"
    assert Path(own["TRITON_CACHE_DIR"]).is_relative_to(folder)
    assert Path(own["TRITON_CACHE_DIR"]).is_dir()
    assert "VLLM_CACHE_ROOT" not in own
    # The known-good state keeps its caches; the next change of code gets others.
    text = text.replace("10", "5 ms").replace('replace = "5"', 'replace = "6 ms"')
    shown = pinned.run("try", pinned.experiment("again", text), "--dry-run", "--json")
    assert Path(shown.json["env"]["TRITON_CACHE_DIR"]).is_relative_to(folder), shown
    assert shown.json["env"]["TRITON_CACHE_DIR"] != own["TRITON_CACHE_DIR"]
    flag = pinned.run(
        "try", pinned.experiment("flag", '[[change]]\nflag = "--x"\nvalue = "1"\n'), "--dry-run", "--json"
    )
    assert flag.json["env"]["TRITON_CACHE_DIR"] == own["TRITON_CACHE_DIR"]


@pytest.fixture
def tunable(anywhere: "RealLab") -> "RealLab":
    done = anywhere.run("baseline", "--json")
    assert done.status == 0, done
    return anywhere


def setting(lab: "RealLab", value: str) -> str:
    return (
        f'[[change]]\nsetting = "pace"\nvalue = "{value}"\nread = ["cat", "{lab.pace}"]\n'
        "write = ['sh', '-c', 'echo \"$1\" > \"$2.new\" && mv \"$2.new\" \"$2\"', 'sh', '{value}', "
        f"'{lab.pace}']\n"
    )


def test_a_setting_that_helps_is_kept_and_undone(tunable: "RealLab", tmp_path: Path) -> None:
    tunable.pace.write_text("10\n")
    tried = tunable.run("try", tunable.experiment("faster", setting(tunable, "5")), "--json")
    assert tried.status == 0, tried
    (trial,) = tried.json["trials"]
    assert trial["verdict"]["decision"] == "keep", tried
    assert trial["proofs"][0]["evidence"] == "pace reads 5 while the server runs"
    assert tunable.pace.read_text() == "5\n"
    tunable.assert_known_good()
    exported = tunable.run("export", "--out", str(tmp_path / "out"), "--json")
    script = next(Path(one) for one in exported.json["files"] if one.endswith("settings.sh"))
    tunable.pace.write_text("7\n")
    drift = tunable.run("status", "--json")
    assert (drift.status, drift.json["status"]["drift"]) == (3, ["setting pace"])
    subprocess.run(["sh", str(script)], check=True)
    assert tunable.pace.read_text() == "5\n"
    assert tunable.run("undo").status == 0
    assert tunable.pace.read_text() == "10\n"
    tunable.assert_known_good()


def test_a_setting_that_hurts_is_put_back(tunable: "RealLab") -> None:
    tunable.pace.write_text("10\n")
    tried = tunable.run("try", tunable.experiment("slower", setting(tunable, "100")), "--json")
    assert tried.json["trials"][0]["verdict"]["reason"] == "regression", tried
    assert tunable.pace.read_text() == "10\n"
    tunable.assert_known_good()


def test_a_setting_that_is_not_there_starts_nothing(tunable: "RealLab") -> None:
    name = tunable.experiment("none", '[[change]]\nsetting = "vm.no_such_thing"\nvalue = 1\n')
    done = tunable.run("try", name, "--json")
    assert done.status == 2, done
    assert "vm.no_such_thing cannot be read" in done.json["message"]
    tunable.assert_known_good()


@pytest.mark.parametrize("delay", [0.0, 0.6])
def test_killed_with_a_setting_in_force_the_host_puts_it_back_by_itself(measured: "RealLab", delay: float) -> None:
    # On the same machine the death of the controller is seen at once; over ssh the host waits for the lease's end.
    tunable = measured
    tunable.pace.write_text("10\n")
    name = tunable.experiment("faster", setting(tunable, "5"))
    with tunable.start("try", name) as trying:
        tunable.wait_for_server()
        time.sleep(delay)
        trying.send_signal(signal.SIGKILL)
        tunable.finish(trying)
    # The watcher does it; status waits for that, and only the trial itself is left to be closed.
    status = tunable.run("status", "--json")
    assert status.status == 3, status
    assert tunable.pace.read_text() == "10\n"
    assert [line for line in status.json["status"]["left_over"] if "never ended" not in line] == []
    recovered = tunable.run("recover", "--json")
    assert recovered.status == 0, recovered
    assert tunable.pace.read_text() == "10\n"
    tunable.assert_known_good()
