"""Lists managed directories. Runs on the host: standard library, Python 3.8.

Usage: ``python -c SOURCE JSON``; prints one JSON object: directory to ``{path: [size, mtime_ns, sha256]}``.

Left out: version control, bytecode, what the journal has parked, whatever is no regular file (links are not followed),
and names that are no UTF-8.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import stat
import sys
from typing import Any

UNREAL = frozenset(("cgroup", "cgroup2", "debugfs", "devpts", "devtmpfs", "proc", "securityfs", "sysfs", "tracefs"))
"""File systems whose files hold no bytes that stay."""
LEFT_OUT = frozenset((".git", ".hg", ".svn", "__pycache__"))
PARKED = ".knowngood"


def listing(root: str, skip: list[str], largest: int, *, digests: bool) -> dict[str, tuple[int, int, str]]:
    """List a directory.

    Args:
        root: The directory.
        skip: Absolute paths of directories and files that are left out.
        largest: Files with more bytes get no digest.
        digests: Whether to read the files at all.
    """
    found: dict[str, tuple[int, int, str]] = {}
    mounts = mounted()
    # The innermost one counts: /dev/shm holds real files, /dev does not.
    around = [mount for mount in mounts if (root.rstrip("/") + "/").startswith(mount.rstrip("/") + "/")]
    if mounts.get(max(around, key=len, default="")) in UNREAL:
        raise OSError(errno.EINVAL, "no directory of files that stay", root)
    skip = [*skip, *(mount for mount, kind in mounts.items() if kind in UNREAL)]
    for folder, folders, files in os.walk(root, onerror=refuse):
        folders[:] = sorted(name for name in folders if is_listed(name) and os.path.join(folder, name) not in skip)
        for name in sorted(files):
            path = os.path.join(folder, name)
            if is_listed(name) and not name.endswith(".pyc") and path not in skip:
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    read = digests and status.st_size <= largest
                    digest = file_sha256(path) if read else ""
                    found[os.path.relpath(path, root)] = (status.st_size, status.st_mtime_ns, digest)
    return found


def mounted() -> dict[str, str]:
    """Mount point to the file system that shows there. Source: proc(5), mounts."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.split() for line in file]
    return {row[1].replace("\\040", " "): row[2] for row in rows}


def refuse(error: OSError) -> None:
    """Let a directory that cannot be read end the listing: half of one would read as files deleted."""
    raise error


def is_listed(name: str) -> bool:
    """Tell whether a name is worth listing."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name not in LEFT_OUT and not name.startswith(PARKED)


def file_sha256(path: str) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
    return found.hexdigest()


def main() -> None:
    """Carry the request out and print the answer."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    # Whoever asked may be gone by then.
    signal.alarm(request["longest_s"])
    answer: dict[str, Any] = {}
    try:
        for root in request["roots"]:
            answer[root] = listing(root, request["skip"], request["largest"], digests=request["digests"])
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        sys.exit(1)
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
