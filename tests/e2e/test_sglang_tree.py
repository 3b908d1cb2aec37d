"""The founding edit, on the real package: two files of an SGLang wheel, widened over ssh and taken back to the byte."""

import base64
import csv
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

WHEEL = "sglang==0.5.9"
EDITED = ("sglang/srt/layers/communicator.py", "sglang/srt/server_args.py")
EXPERIMENT = """
[[change]]
edit = "python:sglang/srt/layers/communicator.py"
find = "(_is_sm90_supported or _is_sm100_supported)"
replace = "(_is_sm90_supported or _is_sm100_supported or _is_sm120_supported)"

[[change]]
edit = "python:sglang/srt/server_args.py"
find = "and (is_sm90_supported() or is_sm100_supported())"
replace = "and (is_sm90_supported() or is_sm100_supported() or is_sm120_supported())"
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"NOT TESTED: {WHEEL} cannot be downloaded")
    (found,) = folder.glob("*.whl")
    return found


def digests(site: Path) -> dict[str, tuple[str, int, int]]:
    """Every file of a tree: digest, mode, time."""
    return {
        str(path.relative_to(site)): (
            hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode, path.stat().st_mtime_ns
        )
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }  # fmt: skip


def not_as_recorded(site: Path) -> list[str]:
    """Files that are not what the package's RECORD says (PEP 376)."""
    (record,) = site.glob("*.dist-info/RECORD")
    wrong: list[str] = []
    with record.open(newline="") as file:
        for name, digest, _ in csv.reader(file):
            found = base64.urlsafe_b64encode(hashlib.sha256((site / name).read_bytes()).digest()).rstrip(b"=")
            if digest and digest != f"sha256={found.decode()}":
                wrong.append(name)
    return wrong


def test_two_files_of_a_real_package_are_widened_and_come_back(
    lab: "RealLab", wheel: Path, move_away: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = lab.root / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH", "")))))
    move_away(lab)
    good = digests(site)
    assert len(good) > 1000
    assert not_as_recorded(site) == []
    assert lab.run("baseline").status == 0
    with lab.start("try", lab.experiment("widen", EXPERIMENT), "--json") as trying:
        lab.wait_for_server()
        during = digests(site)
        done = lab.finish(trying)
    assert {name for name in good if during[name] != good[name]} == set(EDITED)
    assert done.json["trials"][0]["verdict"]["decision"] != "keep", done
    assert digests(site) == good
    assert not_as_recorded(site) == []
    lab.assert_known_good()
