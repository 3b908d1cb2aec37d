"""Disk images that a weak file system may show after a power cut, built from a recording of one request.

The model: a name that was not followed by a sync of its directory may be there or not, in any combination; bytes that
were not followed by a sync of their file may be absent, all there, or an empty file. A rename inside one directory is
atomic, as in every journalling file system of Linux. Source: ALICE (Pillai et al., OSDI 2014), CrashMonkey (OSDI 2018).
"""

import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.faults import Plug

EXCHANGE = 2
Image = dict[str, bytes | None]
Names = dict[tuple[int, str], int | None]


class Op(NamedTuple):
    """One thing that reached the disk: names of a directory, bytes of a file, or a sync of either."""

    kind: str
    inode: int
    names: tuple[tuple[str, int | None], ...] = ()
    data: bytes = b""


class Recording:
    """Runs a request for real and writes down what could be lost."""

    def __init__(self, root: Path, agent: Any, *, exchange: bool = True) -> None:
        self.root = root
        self.log: list[Op] = []
        self.directories: set[int] = set()
        self.top = inode(root)
        self.start: Names = {}
        self.bytes: dict[int, bytes] = {}
        self.links: dict[int, str] = {}
        for path in [root, *root.rglob("*")]:
            self._first_seen(path)
        self._fds: dict[int, int] = {}
        self.plug = Plug(agent, exchange=exchange)
        disk = self.plug.disk
        self._call = {name: getattr(disk, name) for name in (*disk.CHANGES, "open_directory", "close")}
        for name in ("create", "write", "fsync", "open_directory", "close", "mkdir"):
            setattr(disk, name, getattr(self, name))
        for name in ("rename", "rename_flags", "link", "unlink", "rmdir"):
            setattr(disk, name, self._naming(name))
        disk.chown = disk.chmod = disk.set_xattr = disk.remove_xattr = ignore

    def _first_seen(self, path: Path) -> None:
        number = inode(path)
        if path != self.root:
            self.start[inode(path.parent), path.name] = number
        if path.is_symlink():
            self.links[number] = str(path.readlink())
        elif path.is_dir():
            self.directories.add(number)
        else:
            self.bytes[number] = path.read_bytes()

    def _name(self, *changed: tuple[str, int | None]) -> None:
        folder = os.path.dirname(changed[0][0])  # noqa: PTH120 - the agent's names are strings
        assert all(os.path.dirname(path) == folder for path, _ in changed), "renamed across directories"  # noqa: PTH120
        names = tuple((path.rpartition("/")[2], number) for path, number in changed)
        self.log.append(Op("names", inode(Path(folder)), names))

    def create(self, path: str) -> int:
        fd: int = self._call["create"](path)
        self._fds[fd] = os.fstat(fd).st_ino
        self._name((path, self._fds[fd]))
        self.log.append(Op("data", self._fds[fd]))
        return fd

    def write(self, fd: int, data: memoryview) -> int:
        count: int = self._call["write"](fd, data)
        self.log.append(Op("data", self._fds[fd], data=os.pread(fd, 1 << 20, 0)))
        return count

    def fsync(self, fd: int) -> None:
        self._call["fsync"](fd)
        self.log.append(Op("sync", os.fstat(fd).st_ino))

    def open_directory(self, path: str) -> int:
        fd: int = self._call["open_directory"](path)
        return fd

    def close(self, fd: int) -> None:
        self._fds.pop(fd, None)
        self._call["close"](fd)

    def mkdir(self, path: str, mode: int) -> None:
        self._call["mkdir"](path, mode)
        self.directories.add(inode(Path(path)))
        self._name((path, inode(Path(path))))

    def _naming(self, name: str) -> Callable[..., None]:
        """Wrap a call that changes names: what it left behind is what is logged."""

        def change(*args: Any) -> None:
            paths = [arg for arg in args if isinstance(arg, str)]
            self._call[name](*args)
            self._name(*((path, inode(Path(path)) if os.path.lexists(path) else None) for path in paths))

        return change

    def images(self, count: int, cap: int, chance: random.Random) -> Iterator[Image]:
        """All images, or ``cap`` of them where there are more, after the first ``count`` operations."""
        log = self.log[:count]
        synced = {op.inode: at for at, op in enumerate(log) if op.kind == "sync"}
        loose = [at for at, op in enumerate(log) if op.kind == "names" and synced.get(op.inode, -1) < at]
        base, late = dict(self.bytes), dict[int, bytes]()
        for at, op in enumerate(log):
            if op.kind == "data":
                (base if at < synced.get(op.inode, -1) else late)[op.inode] = op.data
        for lost in subsets(loose, cap, chance):
            names = dict(self.start)
            for at, op in enumerate(log):
                if op.kind == "names" and at not in lost:
                    names.update({(op.inode, name): number for name, number in op.names})
            for contents in choices(base, late, chance):
                yield self._image(names, contents)

    def _image(self, names: Names, contents: dict[int, bytes]) -> Image:
        """Follow the names from the top; what cannot be reached is lost."""
        children: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), number in names.items():
            if number is not None:
                children.setdefault(folder, []).append((name, number))
        image: Image = {}
        todo = [("", self.top)]
        while todo:
            prefix, folder = todo.pop()
            for name, number in children.get(folder, ()):
                path = prefix + name
                if number in self.directories:
                    image[path] = None
                    todo.append((path + "/", number))
                elif number in self.links:
                    image[path] = b"@" + self.links[number].encode()
                else:
                    image[path] = b"=" + contents.get(number, b"")
        return image


def ignore(*_: object) -> None:
    """Stand for a call on metadata, which the images do not have."""


def inode(path: Path) -> int:
    return path.lstat().st_ino


def subsets(loose: list[int], cap: int, chance: random.Random) -> Iterator[frozenset[int]]:
    """Sets of operations that are lost: all if they are few, else the extreme ones and random ones."""
    if 2 ** len(loose) <= cap:
        for size in range(len(loose) + 1):
            yield from map(frozenset, itertools.combinations(loose, size))
        return
    yield from (frozenset(), frozenset(loose))
    for at in range(len(loose)):
        yield frozenset(loose[at:])
        yield frozenset(loose) - {loose[at]}
        yield frozenset((loose[at],))
    for _ in range(cap):
        yield frozenset(at for at in loose if chance.random() < 1 / 2)


def choices(base: dict[int, bytes], late: dict[int, bytes], chance: random.Random) -> Iterator[dict[int, bytes]]:
    """What the unsynced files may hold."""
    unsure = [number for number in late if late[number] != base.get(number)]
    if not unsure:
        yield base
        return
    options: dict[str, dict[int, bytes]] = {"base": base, "full": late, "empty": {}}
    chosen = [dict.fromkeys(unsure, option) for option in options]
    chosen += [{number: chance.choice(list(options)) for number in unsure} for _ in range(2)]
    for choice in chosen:
        yield base | {number: options[option].get(number, b"") for number, option in choice.items()}


def put(image: Image, root: Path) -> None:
    """Write an image to a directory."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name, data in sorted(image.items()):
        if data is None:
            (root / name).mkdir()
        elif data.startswith(b"@"):
            (root / name).symlink_to(data[1:].decode())
        else:
            (root / name).write_bytes(data[1:])


def power_cuts(
    scene: Any, prepare: Callable[[], Callable[[Any], Any]], *, cap: int, exchange: bool, without_pre_images: bool
) -> Iterator[tuple[int, bool, Image]]:
    """Run a request once; yield every image after every operation: number, whether the request had answered, image.

    Args:
        scene: Where it plays.
        prepare: Builds the starting state and returns the request.
        cap: Most combinations of lost names at one point.
        exchange: Whether the file system knows ``renameat2``.
        without_pre_images: Leave the stored pre-images out, to show that they are only the second line of defence.
    """
    request = prepare()
    recording = Recording(scene.root, scene.agent, exchange=exchange)
    request(scene.journal(recording.plug.disk))
    chance = random.Random(1)
    seen: set[int] = set()
    last = len(recording.log)
    for count in range(last + 1):
        for image in recording.images(count, cap, chance):
            shown = {name: data for name, data in image.items() if not (without_pre_images and name.endswith(".pre"))}
            key = hash((count == last, frozenset(shown.items())))
            if key not in seen:
                seen.add(key)
                yield count, count == last, shown
