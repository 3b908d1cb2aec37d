"""Real processes: they die of SIGKILL, and what a person runs by hand on the host brings everything back."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.enumerate_faults import prepare
from tests.crash.faults import Plug, kill, kill_really
from tests.crash.scene import Scene, load_agent

from knowngood.hosts.bundle import scripts

SHELLS = ("dash", "bash", "busybox")


def die_at(scene: Scene, request: str, at: int) -> bool:
    """Make a request in a child that is killed at a change; tell whether it was."""
    _, call = prepare(scene, request)
    child = os.fork()
    if child == 0:
        try:
            call(scene.journal(Plug(scene.agent, at, kill_really).disk))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("request_name", ["apply", "revert"])
def test_a_process_is_killed_anywhere(room: Path, request_name: str) -> None:
    scene = Scene(room, load_agent())
    at = 1
    while die_at(scene, request_name, at):
        good = expected(scene)
        scene.come_back()
        assert comparable(scene) == good, at
        assert scene.litter() == []
        at += 1
    assert at > 20


def expected(scene: Scene) -> dict[str, tuple[object, ...]]:
    """The known-good tree as another build of it looks: all but the inode numbers."""
    other = Scene(scene.root / "other", scene.agent)
    other.build()
    return comparable(other)


def comparable(scene: Scene) -> dict[str, tuple[object, ...]]:
    return {name: (*what[:-2], what[-1]) if len(what) > 5 else what for name, what in scene.snapshot().items()}


def kill_at(scene: Scene, request: str, at: int) -> Plug:
    _, call = prepare(scene, request)
    plug = Plug(scene.agent, at, kill)
    try:
        call(scene.journal(plug.disk))
    except BaseException:  # noqa: BLE001 - it is dead
        assert plug.dead
    return plug


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("request_name", ["apply", "revert"])
def test_the_shell_brings_everything_back(room: Path, request_name: str, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"NOT TESTED: there is no {shell} on this machine")
    script = room / "recover.sh"
    script.write_bytes(scripts()["recover.sh"])
    scene = Scene(room, load_agent())
    command, env = [shell], dict(os.environ)
    if shell == "busybox":
        # All of its tools, and no others.
        (room / "bin").mkdir()
        subprocess.run([shell, "--install", "-s", str(room / "bin")], check=True)
        command, env = [str(room / "bin" / "sh")], {"PATH": str(room / "bin")}
    at = 1
    while True:
        plug = kill_at(scene, request_name, at)
        if not plug.dead and request_name == "revert":
            break
        done = subprocess.run(
            [*command, str(script), str(scene.state)], capture_output=True, text=True, check=False, env=env
        )
        assert (done.returncode, done.stderr) == (0, ""), (at, done.stdout)
        assert [name for name, what in expected(scene).items() if comparable(scene).get(name) != what] == [], at
        assert scene.shows() == "old"
        assert not list(scene.srv.rglob(".knowngood-*"))
        if not plug.dead:
            break
        at += 1
    assert at > 20


def test_the_script_left_in_the_state_directory_recovers_alone(room: Path) -> None:
    scene = Scene(room, load_agent())
    good = scene.build()
    scene.agent.Journal(str(scene.state), None, scripts()).apply("trial-1", scene.edits())
    scene.run_trial()
    script = scene.state / "recover.py"
    listed = run_alone(script, "list")
    assert listed.stdout == "trial-1 applied\n"
    done = run_alone(script)
    assert (done.returncode, done.stdout) == (0, "trial-1 reverted\n")
    assert scene.wrong(good) == []


def test_the_script_reports_what_it_had_to_leave(room: Path) -> None:
    scene = Scene(room, load_agent())
    scene.build()
    scene.agent.Journal(str(scene.state), None, scripts()).apply("trial-1", scene.edits())
    (scene.srv / "conf.yaml").write_bytes(b"mine\n")
    done = run_alone(scene.state / "recover.py")
    assert done.returncode == 1
    assert "conf.yaml was edited by somebody else" in done.stdout
    assert (scene.srv / "conf.yaml").read_bytes() == b"mine\n"


def run_alone(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script as on a foreign host: isolated, without site packages."""
    command = [sys.executable, "-IS", str(script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={}, cwd="/")
