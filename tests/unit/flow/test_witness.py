"""The script that runs inside servers, in real interpreters: it must tell the truth, and change nothing."""

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest


class Room:
    """A directory with a package, and the witness watching it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "pkg"
        self.package.mkdir()
        (self.package / "__init__.py").write_text("")
        self.module = self.package / "mod.py"
        self.module.write_text("VALUE = 1000\n")
        self.witness = root / "witness"
        (self.witness / "records").mkdir(parents=True)
        source = resources.files("knowngood.flow.on_host").joinpath("witness.py").read_text("utf-8")
        (self.witness / "sitecustomize.py").write_text(source)
        self.watch(str(self.module))

    def watch(self, *paths: str) -> None:
        (self.witness / "watched").write_text("\n".join(paths))

    def run(self, code: str, *options: str, **env: str) -> str:
        path = os.pathsep.join(
            filter(None, (env.pop("FIRST", ""), str(self.root), str(self.witness), env.pop("LAST", "")))
        )
        done = subprocess.run(
            [sys.executable, *options, "-c", code],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": path, **env},
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
        )
        assert done.stderr == ""
        return done.stdout

    def records(self) -> list[dict[str, Any]]:
        lines = [
            line for file in sorted((self.witness / "records").iterdir()) for line in file.read_text().splitlines()
        ]
        return sorted(map(json.loads, lines), key=lambda record: record["at"])


@pytest.fixture
def watched(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_module_is_told_with_the_digest_of_its_source(watched: Room) -> None:
    import hashlib

    watched.run("import pkg.mod")
    start, load = watched.records()
    assert start.keys() == {"pid", "at"}
    assert (load["path"], load["same"]) == (str(watched.module), True)
    assert load["sha256"] == hashlib.sha256(b"VALUE = 1000\n").hexdigest()


def test_who_does_not_load_it_says_so(watched: Room) -> None:
    watched.run("import pkg")
    assert len(watched.records()) == 1


def test_stale_bytecode_is_other_code(watched: Room) -> None:
    watched.run("import pkg.mod")
    before = watched.module.stat()
    watched.module.write_text("VALUE = 2000\n")
    os.utime(watched.module, ns=(before.st_atime_ns, before.st_mtime_ns))
    out = watched.run("import pkg.mod; print(pkg.mod.VALUE)")
    assert out == "1000\n", "this interpreter does not keep bytecode: the test has nothing to see"
    assert watched.records()[-1]["same"] is False


@pytest.mark.parametrize(
    "code",
    [
        "import runpy; runpy.run_module('pkg.mod')",
        """
import importlib.util
spec = importlib.util.spec_from_file_location("x", {path!r})
spec.loader.exec_module(importlib.util.module_from_spec(spec))
""",
        """
import importlib, multiprocessing
child = multiprocessing.get_context("spawn").Process(target=importlib.import_module, args=("pkg.mod",))
child.start()
child.join()
""",
        "import os, sys\nif os.fork() == 0:\n import pkg.mod\n os._exit(0)\nos.wait()",
    ],
)
def test_every_way_to_load_it_is_seen(watched: Room, code: str) -> None:
    watched.run(code.format(path=str(watched.module)))
    assert [record["path"] for record in watched.records() if "path" in record] == [str(watched.module)]


def test_a_link_to_it_is_it(watched: Room, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.symlink_to(tmp_path / "pkg")
    watched.watch(str(other / "mod.py"))
    watched.run("import pkg.mod")
    assert watched.records()[-1]["path"] == str(other / "mod.py")


def test_of_a_directory_each_package_is_told_once(watched: Room, tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text("")
    watched.watch(f"{tmp_path}/")
    watched.run("import pkg.mod, single")
    found = [record["path"] for record in watched.records() if "path" in record]
    assert found == [str(tmp_path / "pkg" / "__init__.py"), str(tmp_path / "single.py")]


def test_its_directory_is_not_on_the_path_of_imports(watched: Room) -> None:
    assert str(watched.witness) not in watched.run("import sys; print(sys.path)")
    assert str(watched.witness) in watched.run("import os; print(os.environ['PYTHONPATH'])")


def test_the_users_own_sitecustomize_runs(watched: Room, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("MINE = 'mine'\n")
    look = "import sys, pkg.mod; print(sys.modules['sitecustomize'].MINE)"
    assert watched.run(look, LAST=str(own)) == "mine\n"
    assert len(watched.records()) == 2
    # In front of ours it is the only one: nobody is watched then.
    assert watched.run(look, FIRST=str(own)) == "mine\n"
    assert len(watched.records()) == 2


def test_a_witness_that_cannot_write_is_silent(watched: Room) -> None:
    (watched.witness / "watched").unlink()
    assert watched.run("import pkg.mod; print(pkg.mod.VALUE)") == "1000\n"
