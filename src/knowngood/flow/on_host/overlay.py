"""Builds an overlay of pinned wheels. Runs on the host in the server's interpreter: standard library, Python 3.8.

Usage: ``python -c SOURCE JSON``; prints one JSON object: an overlay, or ``error`` and what pip said last. Nothing is
written outside ``home``: wheels go to ``HOME/DIGEST/wheels``, what they hold to ``HOME/DIGEST/site``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")
DERIVED = "__pycache__"
BUILDING = ".building-"
OLD_S = 3600
VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        one = importlib.metadata.distribution(name)
        tops = sorted({file.parts[0] for file in one.files or () if "-info" not in file.parts[0]})
        found[name] = [one.version, str(one.locate_file("")), tops]
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class Unbuildable(Exception):
    """The overlay cannot be built: what failed, and the last thing that pip said."""

    def __init__(self, what: str, said: str = "") -> None:
        super().__init__(what)
        self.said = said


def build(request: dict[str, Any]) -> dict[str, Any]:
    """Find an overlay that was built before, or build it.

    Args:
        request: ``home``, ``pins`` (requirements), ``packages`` (their names) and ``deps``.
    """
    home: str = request["home"]
    os.makedirs(home, exist_ok=True)
    wanted = {"pins": sorted(request["pins"]), "deps": request["deps"], "tag": tag()}
    sweep(home)
    for name in sorted(os.listdir(home)):
        folder = os.path.join(home, name)
        if not name.startswith(".") and is_whole(folder, wanted):
            return answer(folder, request["packages"])
    scratch = tempfile.mkdtemp(prefix=BUILDING, dir=home)
    try:
        folder = fill(scratch, wanted, home)
        return answer(folder, request["packages"])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def sweep(home: str) -> None:
    """Remove what a builder that was killed has left; one that lives is younger."""
    for name in os.listdir(home):
        folder = os.path.join(home, name)
        if name.startswith(BUILDING) and time.time() - os.stat(folder).st_mtime > OLD_S:
            shutil.rmtree(folder, ignore_errors=True)


def fill(scratch: str, wanted: dict[str, Any], home: str) -> str:
    """Fetch wheels and unpack them; returns the finished overlay's directory."""
    wheels, site = os.path.join(scratch, "wheels"), os.path.join(scratch, "site")
    no_deps = [] if wanted["deps"] else ["--no-deps"]
    pip("download", *no_deps, "--only-binary=:all:", "--dest", wheels, *wanted["pins"])
    names = sorted(os.listdir(wheels))
    digests = {name: file_digest(os.path.join(wheels, name)) for name in names}
    pip(
        "install", "--no-deps", "--no-index", "--no-compile", "--target", site,
        *(os.path.join(wheels, name) for name in names),
    )  # fmt: skip
    wheel_set = json.dumps([wanted, digests], sort_keys=True)
    folder = os.path.join(home, hashlib.sha256(wheel_set.encode()).hexdigest()[:16])
    note = dict(wanted, wheels=digests, site=tree_digest(site))
    with open(os.path.join(scratch, "overlay.json"), "w", encoding="utf-8") as file:
        json.dump(note, file, indent=1)
    # What stands there already was not whole: somebody has changed it.
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(scratch, folder)
    return folder


def is_whole(folder: str, wanted: dict[str, Any]) -> bool:
    """Tell whether an overlay is the one wanted, with all its bytes as they were built."""
    try:
        with open(os.path.join(folder, "overlay.json"), encoding="utf-8") as file:
            note = json.load(file)
        wheels = os.path.join(folder, "wheels")
        return (
            all(note[key] == value for key, value in wanted.items())
            and {name: file_digest(os.path.join(wheels, name)) for name in sorted(os.listdir(wheels))} == note["wheels"]
            and tree_digest(os.path.join(folder, "site")) == note["site"]
        )
    except (OSError, ValueError, KeyError):
        return False


def answer(folder: str, packages: list[str]) -> dict[str, Any]:
    """Describe an overlay, with the versions that this interpreter finds along its path."""
    site = os.path.join(folder, "site")
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([site, *([inherited] if inherited else [])])
    done = subprocess.run(
        [sys.executable, "-c", VERSIONS, *packages],
        env=dict(os.environ, PYTHONPATH=path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout.decode())
    seen = {
        name: version
        for name, (version, place, _) in found.items()
        if os.path.realpath(place) == os.path.realpath(site)
    }
    return {"overlay": site, "versions": seen, "inherited": inherited}


def pip(*words: str) -> None:
    """Run this interpreter's pip.

    Raises:
        Unbuildable: It fails.
    """
    done = subprocess.run(
        [sys.executable, *PIP, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, PIP_USER="0"), check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
        raise Unbuildable("pip " + words[0], lines[-1] if lines else "no message")


def tag() -> str:
    """What wheels are chosen by: interpreter and machine."""
    return "-".join((sys.implementation.cache_tag or sys.implementation.name, sys.platform, platform.machine()))


def file_digest(path: str) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
    return found.hexdigest()


def tree_digest(root: str) -> str:
    """SHA-256 over names and bytes below a directory, bytecode left out."""
    lines: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != DERIVED)
        for name in sorted(files):
            path = os.path.join(folder, name)
            lines.append(os.path.relpath(path, root) + " " + file_digest(path))
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def main() -> None:
    """Carry the request out and print the answer."""
    try:
        found = build(json.loads(sys.argv[1]))
    except Unbuildable as error:
        found = {"error": str(error), "said": error.said}
    except (OSError, subprocess.CalledProcessError) as error:
        found = {"error": "building the overlay", "said": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
