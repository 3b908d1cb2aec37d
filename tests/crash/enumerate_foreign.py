"""Somebody else edits a target at every change of a request. Their bytes must survive, the rest come back."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.crash.enumerate_faults import Tally, attempt, prepare
from tests.crash.faults import Plug, meanwhile
from tests.crash.scene import HOLD, OLD, TARGETS, Scene

FOREIGN = b"edited by somebody else\n"
TOLD = "somebody else"


def by_rename(path: Path) -> None:
    fresh = path.with_name("editor.tmp")
    fresh.write_bytes(FOREIGN)
    fresh.rename(path)


def in_place(path: Path) -> None:
    path.write_bytes(FOREIGN)


def delete(path: Path) -> None:
    path.unlink(missing_ok=True)


def change_mode(path: Path) -> None:
    if path.exists():
        path.chmod(0o604)


STYLES: dict[str, Callable[[Path], None]] = {
    "rename": by_rename,
    "in place": in_place,
    "delete": delete,
    "chmod": change_mode,
}


def foreign(
    scene: Scene, request: str, style: str, target: str, tally: Tally, *, exchange: bool = True
) -> Iterator[str]:
    """Edit ``target`` in the given style at every change of a request."""
    at = 0
    while True:
        at += 1
        _, call = prepare(scene, request)
        acted: list[bool] = []
        plug = Plug(scene.agent, at, meanwhile(partial(act, scene, style, target, acted)), exchange=exchange)
        error = attempt(scene, plug, call)
        if plug.count < at:
            return
        if acted:
            tally.states += 1
            yield from judge(scene, style, target, error, f"{style} {target} during {request}@{at}")


def act(scene: Scene, style: str, target: str, acted: list[bool]) -> None:
    path = scene.srv / target
    if path.parent.is_dir():
        STYLES[style](path)
        acted.append(True)


def judge(scene: Scene, style: str, target: str, error: Exception | None, where: str) -> Iterator[str]:
    notes = [str(error)] if error else []
    held = [path.read_bytes() for path in scene.srv.rglob(HOLD + "*")]
    if error is None and FOREIGN in held:
        yield f"{where}: acknowledged, although somebody else's bytes were taken out"
    try:
        notes += scene.come_back()
    except Exception as failure:  # noqa: BLE001 - whatever a mutant does is a violation
        yield f"{where}: recovery failed: {failure!r}"
        return
    told = any(TOLD in note for note in notes)
    others: list[Any] = [name for name in TARGETS if name != target and scene.bytes_of(name) != OLD.get(name)]
    if others:
        yield f"{where}: not back: {others}"
    now = scene.bytes_of(target)
    if style in ("rename", "in place"):
        if FOREIGN not in scene.contents().values():
            yield f"{where}: the foreign edit is lost"
        elif now != FOREIGN and not told:
            yield f"{where}: the foreign edit was moved, and nobody was told"
    if style == "delete" and now not in (None, OLD.get(target)):
        yield f"{where}: a deleted file shows the trial's bytes"
    if style == "chmod" and now != OLD.get(target):
        yield f"{where}: a change of mode kept the file from coming back"
    if scene.litter() and not told:
        yield f"{where}: litter, and nobody was told: {[os.path.basename(path) for path in scene.litter()]}"  # noqa: PTH119
