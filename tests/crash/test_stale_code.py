"""CPython trusts bytecode whose source has the same whole second and size. No version may ever run as another one."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from tests.crash.scene import load_agent, sha

TIMES = int(os.environ.get("KNOWNGOOD_STALE_CODE_TIMES", "200"))


def run_module(path: Path) -> int:
    """Import a source file as a new process would, bytecode cache included."""
    spec = importlib.util.spec_from_file_location("knowngood_probe", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    value: int = module.VALUE
    return value


@pytest.fixture(params=["beside the source", "under a prefix"])
def module(room: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None if request.param == "beside the source" else str(room / "cache"))
    path = room / "srv" / "m.py"
    path.parent.mkdir()
    path.write_bytes(b"VALUE = 1000\n")
    return path


def rounds(room: Path, module: Path, times: int, replacements: tuple[tuple[str, str], ...] = ()) -> tuple[int, int]:
    """Apply and revert same-size edits as fast as can be; return how often stale code ran in a trial, and after it."""
    agent = load_agent(replacements)
    journal = agent.Journal(str(room / "state"))
    old = module.read_bytes()
    stale = [0, 0]
    run_module(module)
    for number in range(times):
        value = 1001 + number
        journal.apply(f"t{number}", [agent.Edit(str(module), sha(old), b"VALUE = %d\n" % value)])
        stale[0] += run_module(module) != value
        journal.revert(f"t{number}")
        stale[1] += run_module(module) != 1000
    return stale[0], stale[1]


def test_stale_code_never_runs(room: Path, module: Path) -> None:
    assert rounds(room, module, TIMES) == (0, 0)


@pytest.mark.parametrize("module", ["under a prefix"], indirect=True)
def test_without_the_rule_of_whole_seconds_it_does(room: Path, module: Path) -> None:
    keep_time = ("max(time.time_ns(), (last + 1) * SECOND)", "(entry.meta.mtime_ns if entry.meta else 0)")
    in_trial, _ = rounds(room, module, 20, (keep_time,))
    assert in_trial > 0


def test_a_build_input_comes_back_newer_than_what_was_built_from_the_trial(room: Path) -> None:
    agent = load_agent()
    source = room / "kernel.cu"
    source.write_bytes(b"// old\n")
    journal = agent.Journal(str(room / "state"))
    journal.apply("t", [agent.Edit(str(source), sha(b"// old\n"), b"// new\n")])
    binary = room / "kernel.o"
    binary.write_bytes(b"built from the trial")
    os.utime(binary, ns=(source.stat().st_mtime_ns, source.stat().st_mtime_ns))
    journal.revert("t")
    assert source.read_bytes() == b"// old\n"
    assert source.stat().st_mtime_ns > binary.stat().st_mtime_ns
