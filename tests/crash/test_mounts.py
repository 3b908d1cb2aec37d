"""What a host cannot take is refused before a byte changes: real mounts, a really full disk, real attributes."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.crash.scene import Scene, load_agent

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: mounts and immutable files need root"),
]


@contextmanager
def mounted(target: Path, *options: str) -> Generator[None]:
    done = subprocess.run(["mount", *options, str(target)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: this machine does not let root mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(target)], check=True)


def refusal(scene: Scene) -> str:
    """Try to apply; the tree must be as before; return why it was refused."""
    good = scene.snapshot()
    with pytest.raises(scene.agent.Refused) as caught:
        scene.journal().apply("t", scene.edits())
    assert scene.snapshot() == good
    assert scene.litter() == []
    assert scene.journal().transactions() == []
    return str(caught.value)


def test_read_only_file_system(room: Path) -> None:
    scene = Scene(room, load_agent())
    scene.build()
    with mounted(scene.srv, "--bind", str(scene.srv)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(scene.srv)], check=True)
        assert "not writable" in refusal(scene) or "read-only" in refusal(scene)


def test_single_file_bind_mount(room: Path) -> None:
    scene = Scene(room, load_agent())
    scene.build()
    with mounted(scene.srv / "gone.txt", "--bind", str(scene.srv / "gone.txt")):
        assert "mount point" in refusal(scene)


def test_immutable_file(tmp_path: Path) -> None:
    scene = Scene(tmp_path, load_agent())
    scene.build()
    target = scene.srv / "gone.txt"
    if subprocess.run(["chattr", "+i", str(target)], capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: this file system has no immutable files")
    try:
        assert "immutable" in refusal(scene)
    finally:
        subprocess.run(["chattr", "-i", str(target)], check=True)


def test_a_disk_that_is_too_small(room: Path) -> None:
    small = room / "small"
    small.mkdir()
    with mounted(small, "-t", "tmpfs", "-o", "size=64k", "none"):
        scene = Scene(small, load_agent())
        scene.build()
        assert "no space" in refusal(scene).lower()


def test_a_revert_needs_no_space(room: Path) -> None:
    small = room / "small"
    small.mkdir()
    with mounted(small, "-t", "tmpfs", "-o", "size=1m", "none"):
        scene = Scene(small, load_agent())
        good = scene.build()
        scene.applied()
        fill(small / "ballast")
        assert free_bytes(small) == 0
        assert scene.journal().revert("trial-1").state == "reverted"
        (small / "ballast").unlink()
        assert scene.wrong(good) == []


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
