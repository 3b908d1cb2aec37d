"""Real power cuts: ext4 and XFS on a loop device are shut down in the middle of a request, mounted again, recovered.

What a file system shows then is what it had made durable: its journal alone, or not even that.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.crash.enumerate_cuts import judge
from tests.crash.enumerate_faults import REQUESTS, prepare
from tests.crash.faults import Plug
from tests.crash.scene import Scene, load_agent

MAKE = {"ext4": ("64M", ("mkfs.ext4", "-q", "-F")), "xfs": ("320M", ("mkfs.xfs", "-q", "-f"))}
GOING_DOWN = 0x8004587D  # FS_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN
CUTS = {"journal": 1, "nothing": 2}  # what is still written: the log without data; nothing at all
UNMOUNT_S = 20.0

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: cutting the power of a file system needs root"),
]


class Disk:
    """A file system in a file, whose power can be cut.

    Args:
        folder: Where its image and its mount point are made.
        kind: ``ext4`` or ``xfs``.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.image = folder / f"{kind}.img"
        self.top = folder / kind
        self.top.mkdir()
        size, make = MAKE[kind]
        if shutil.which(make[0]) is None:
            pytest.skip(f"NOT TESTED: there is no {make[0]} on this machine")
        with self.image.open("wb") as file:
            file.truncate(int(size.removesuffix("M")) << 20)
        subprocess.run([*make, str(self.image)], check=True)

    def mount(self) -> None:
        command = ["mount", "-o", "loop", str(self.image), str(self.top)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"NOT TESTED: this machine does not let root mount: {done.stderr.strip()}")

    def unmount(self) -> None:
        until = time.monotonic() + UNMOUNT_S
        while subprocess.run(["umount", str(self.top)], capture_output=True, check=False).returncode:
            assert time.monotonic() < until, "it is busy"
            time.sleep(0.02)

    def cut(self, flag: int) -> None:
        """From here on nothing reaches it."""
        fd = os.open(self.top, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, GOING_DOWN, struct.pack("I", flag))
        finally:
            os.close(fd)

    def sync(self) -> None:
        """What stands, stands."""
        subprocess.run(["sync", "-f", str(self.top)], check=True)


@pytest.fixture(params=["ext4", "xfs"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    found = Disk(tmp_path, request.param)
    found.mount()
    yield found
    found.unmount()


def cut_at(scene: Scene, disk: Disk, request: Callable[[Any], Any], at: int, flag: int) -> bool:
    """Make a request in a process of its own; cut the power at a change, or behind the last. Tell if it answered."""

    def fault(*_: object) -> None:
        disk.cut(flag)
        os._exit(1)

    child = os.fork()
    if child == 0:
        status = 2
        with suppress(BaseException):
            request(scene.journal(Plug(scene.agent, at, fault).disk))
            disk.cut(flag)
            status = 0
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), "the request failed by itself"
    return status == 0


def cut_everywhere(disk: Disk, agent: Any, request_name: str, written: str) -> tuple[int, list[str]]:
    """Cut the power at every change of a request; tell how many there were, and what was wrong after recovery."""
    scene = Scene(disk.top / "r", agent)
    scene.root.mkdir()
    scene.build()
    contents = scene.contents()
    wrong: list[str] = []
    answered, at = False, 0
    while not answered:
        at += 1
        good, call = prepare(scene, request_name)
        disk.sync()
        answered = cut_at(scene, disk, call, at, CUTS[written])
        disk.unmount()
        disk.mount()
        wrong += judge(scene, request_name, contents, f"{request_name}@{at}", answered=answered)
        wrong += [f"{request_name}@{at}: {name}" for name in scene.wrong(good)]
    return at, wrong


@pytest.mark.parametrize("written", CUTS)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_power_is_cut_at_every_change(disk: Disk, request_name: str, written: str) -> None:
    cuts, wrong = cut_everywhere(disk, load_agent(), request_name, written)
    assert wrong == []
    assert cuts > 2


def test_a_protocol_without_its_barriers_does_not_survive(disk: Disk) -> None:
    unsynced = load_agent([("                    disk.fsync(todo[number])", "                    pass")])
    assert cut_everywhere(disk, unsynced, "apply", "nothing")[1] != []
