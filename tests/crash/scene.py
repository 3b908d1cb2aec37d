"""The tree that is broken in every way, the agent that must not break it, and what counts as unbroken."""

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from knowngood.hosts.bundle import source

TX = "trial-1"
OLD_NS = 1_600_000_000_123_456_789
HOLD = ".knowngood-"
Snapshot = dict[str, tuple[object, ...]]

OLD = {
    "pkg/m.py": b"MODE = 1\n",
    "pkg/__pycache__/m.cpython-311.pyc": b"bytecode of the original",
    "pkg/__pycache__/other.cpython-311.pyc": b"bytecode of another module",
    "pkg/other.py": b"OTHER = 1\n",
    "conf.yaml": b"\xef\xbb\xbfthreads: 1\r\nname: caf\xe9",
    "gone.txt": b"to be removed\n",
}
NEW = {
    "pkg/m.py": b"MODE = 2\n",
    "conf.yaml": b"\xef\xbb\xbfthreads: 2\r\nname: caf\xe9",
    "gone.txt": None,
    "made/sub/fresh.py": b"FRESH = 1\n",
}
TARGETS = tuple(NEW)


def load_agent(replacements: Sequence[tuple[str, str]] = ()) -> Any:
    """The agent out of its one-file form, as it goes to a host, altered where a mutant asks for it."""
    text = source()
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    module = ModuleType("knowngood_agent")
    exec(compile(text, "recover.py", "exec"), module.__dict__)  # noqa: S102 - our own source
    return module


def sha(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


class Scene:
    """A server's tree in ``root/srv`` and a state directory in ``root/state``."""

    def __init__(self, root: Path, agent: Any) -> None:
        self.root = root
        self.srv = root / "srv"
        self.state = root / "state"
        self.agent = agent

    def build(self) -> Snapshot:
        """Make the tree anew: modes, owners, links, attributes, times that are not the defaults."""
        for path in (self.srv, self.state):
            shutil.rmtree(path, ignore_errors=True)
        for name, data in OLD.items():
            path = self.srv / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, ns=(OLD_NS, OLD_NS))
        module = self.srv / "pkg/m.py"
        module.chmod(0o640)
        os.setxattr(module, "user.origin", b"wheel")
        os.link(module, self.srv / "twin-of-m.py")
        if os.geteuid() == 0:
            os.chown(self.srv / "conf.yaml", 65534, 65534)
        (self.srv / "link.yaml").symlink_to("conf.yaml")
        os.utime(module, ns=(OLD_NS, OLD_NS))
        return self.snapshot()

    def edits(self) -> list[Any]:
        """Edit a linked module, a file behind a symbolic link, remove one, make one in directories that are missing."""
        asked = {"conf.yaml": "link.yaml"}
        return [
            self.agent.Edit(str(self.srv / asked.get(name, name)), sha(OLD.get(name)), data)
            for name, data in NEW.items()
        ]

    def journal(self, disk: Any = None) -> Any:
        return self.agent.Journal(str(self.state), disk, {"recover.py": b"print()\n"}, wait_s=0.0)

    def applied(self) -> Any:
        """A journal in which the edits are applied, and the trial has left bytecode behind."""
        journal = self.journal()
        journal.apply(TX, self.edits())
        self.run_trial()
        return journal

    def run_trial(self) -> None:
        """What a server leaves behind: bytecode of the new module beside the parked one."""
        (self.srv / "pkg/__pycache__/m.cpython-311.pyc").write_bytes(b"bytecode of the trial")
        cache = self.srv / "made/sub/__pycache__"
        cache.mkdir(exist_ok=True)
        (cache / "fresh.cpython-311.pyc").write_bytes(b"bytecode of the trial")

    def snapshot(self) -> Snapshot:
        """Everything that has to come back; times of directories are not promised."""
        found: Snapshot = {}
        for path in sorted(self.srv.rglob("*")):
            status = path.lstat()
            name = str(path.relative_to(self.srv))
            what = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
            if path.is_symlink():
                found[name] = (*what, str(path.readlink()))
            elif path.is_dir():
                found[name] = what
            else:
                attributes = tuple((key, os.getxattr(path, key)) for key in sorted(os.listxattr(path)))
                inode = (status.st_ino, status.st_nlink)
                found[name] = (*what, path.read_bytes(), status.st_mtime_ns, attributes, *inode)
        return found

    def contents(self) -> dict[str, bytes]:
        """Path to bytes, links and metadata left out."""
        files = (path for path in self.srv.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.srv)): path.read_bytes() for path in files}

    def shows(self) -> str:
        """Whether the targets are all old, all new, or mixed."""
        found = {name: self.bytes_of(name) for name in TARGETS}
        if all(found[name] == OLD.get(name) for name in TARGETS):
            return "old"
        return "new" if found == NEW else "mixed"

    def bytes_of(self, name: str) -> bytes | None:
        path = self.srv / name
        return path.read_bytes() if path.is_file() else None

    def litter(self) -> list[str]:
        """What must not be left: our holds, half-written records."""
        holds = [str(path) for path in self.srv.rglob(HOLD + "*")]
        records = self.state / "tx"
        return holds + [str(path) for path in (records.iterdir() if records.is_dir() else ()) if path.suffix == ".new"]

    def come_back(self) -> list[str]:
        """Recover with a sound disk and undo what was kept; return what is left undone, as the notes say."""
        journal = self.journal()
        answers = journal.recover()
        for status in journal.transactions():
            if status.state == "kept":
                journal.revert(status.id)
        return [note for status in (*answers, *journal.transactions()) for note in status.notes]

    def wrong(self, good: Snapshot) -> list[str]:
        """What differs from the known-good tree after recovery."""
        now = self.snapshot()
        differing = sorted(name for name in now.keys() | good.keys() if now.get(name) != good.get(name))
        left = [f"{status.id} is {status.state}" for status in self.journal().transactions()]
        return differing + self.litter() + left
