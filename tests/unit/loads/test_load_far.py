"""The generator goes to hosts that have an older Python and nothing of ours."""

import ast
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from knowngood.errors import LoadError
from knowngood.loads import far
from knowngood.loads.client import Client
from knowngood.loads.samples import read_samples
from knowngood.model.workload import Lengths, Workload
from knowngood.ports import Target
from knowngood.reason.boot import TOO_OLD
from knowngood.testing.sse_server import serving

FOLDER = resources.files("knowngood.loads")


@pytest.mark.parametrize("name", far.MODULES)
def test_it_needs_the_standard_library_and_what_was_sent_before_it(name: str) -> None:
    before = {f"knowngood.loads.{one}" for one in far.MODULES[: far.MODULES.index(name)]}
    for node in ast.walk(ast.parse(FOLDER.joinpath(f"{name}.py").read_text("utf-8"), feature_version=far.OLDEST)):
        if isinstance(node, ast.Import):
            assert all(alias.name in sys.stdlib_module_names for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.module in before or str(node.module).split(".")[0] in sys.stdlib_module_names


def measure(out: Path, client: Client, url: str) -> int:
    workload = Workload(name="w", concurrency=2, requests=6, osl=Lengths(mean=4))
    target = Target(url="http://127.0.0.1:1", there=url, alive=lambda: True, log=Path("log"))
    return client.measure(target, workload, out=out, progress=lambda _: None, mark=lambda: None).requests


def test_its_samples_come_home_whatever_start_up_files_print(tmp_path: Path) -> None:
    out = tmp_path / "samples.gz"
    out.write_bytes(b"of an earlier attempt")
    client = Client(lead=lambda words: ("sh", "-c", 'echo Welcome; "$@"', "elsewhere", *words))
    with serving() as url:
        assert measure(out, client, url) == 6
    assert len([one for one in read_samples(out).requests if one.phase == "measured"]) == 6


def test_a_host_without_a_python_for_it_says_so(tmp_path: Path) -> None:
    client = Client(lead=lambda words: ("env", "PATH=/nowhere", "/bin/sh", *words[1:]))
    with pytest.raises(LoadError, match=r"no Python 3\.10"):
        measure(tmp_path / "samples.gz", client, "http://127.0.0.1:1")


def test_an_older_python_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "python-old"
    old.write_text(f"#!/bin/sh\nexit {TOO_OLD}\n")
    old.chmod(0o755)
    done = subprocess.run(far.words(str(old)), input=b"0\n", capture_output=True, check=False)
    assert b"Error" in done.stderr  # the next one read an empty parcel
