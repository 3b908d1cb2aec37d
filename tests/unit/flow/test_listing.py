"""The lister of managed directories, as the host runs it."""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from knowngood.flow.on_host import listing as lister


def listed(*roots: str, longest_s: int = 60) -> subprocess.CompletedProcess[str]:
    skip: list[str] = []
    request = {"roots": roots, "skip": skip, "largest": 1000, "digests": True, "longest_s": longest_s}
    return subprocess.run(
        [sys.executable, "-I", lister.__file__, json.dumps(request)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_files_that_the_kernel_makes_up_are_not_managed() -> None:
    for root in ("/proc", "/proc/self", "/sys"):
        done = listed(root)
        assert done.returncode == 1
        assert done.stderr == f"{root}: no directory of files that stay\n"


def test_a_directory_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert list(json.loads(listed(str(tmp_path)).stdout)[str(tmp_path)]) == ["a"]


def test_the_lister_ends_by_itself_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    slow = "import hashlib, runpy, sys, time; hashlib.sha256 = lambda: time.sleep(30)"
    run = f"runpy.run_path({lister.__file__!r}, run_name='__main__')"
    request = {"roots": [str(tmp_path)], "skip": [], "largest": 1000, "digests": True, "longest_s": 1}
    argv = [sys.executable, "-c", f"{slow}; {run}", json.dumps(request)]
    assert subprocess.run(argv, capture_output=True, check=False, timeout=60).returncode == -signal.SIGALRM


@pytest.mark.skipif(not Path("/dev/shm").is_mount(), reason="NOT TESTED: nothing is mounted on /dev/shm")  # noqa: S108
def test_real_files_within_what_the_kernel_makes_up_are_managed() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "a").write_text("a")
        assert listed(folder).returncode == 0
