"""All places where a request can be cut off or fail, one after the other. One line a violation."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tests.crash.faults import Fault, Killed, Plug, fail_once
from tests.crash.scene import TX, Scene

Request = Callable[[Any], Any]


class Tally:
    """How many states were produced, how many of them were mixed at the moment of the fault."""

    def __init__(self) -> None:
        self.states = 0
        self.mixed = 0


def prepare(scene: Scene, request: str) -> tuple[Any, Request]:
    """A fresh tree in the state that a request starts from, its snapshot, and the request."""
    good = scene.build()
    if request == "apply":
        return good, lambda journal: journal.apply(TX, scene.edits())
    healthy = scene.applied()
    if request == "keep":
        return good, lambda journal: journal.keep(TX)
    if request == "revert kept":
        healthy.keep(TX)
    if request == "recover":
        return good, lambda journal: journal.recover()
    return good, lambda journal: journal.revert(TX)


REQUESTS = ("apply", "keep", "revert", "revert kept", "recover")


def attempt(scene: Scene, plug: Plug, request: Request) -> Exception | None:
    """Make a request; a kill is swallowed, since a dead process tells nobody, an error is returned."""
    with suppress(Killed):
        try:
            request(scene.journal(plug.disk))
        except Exception as error:  # noqa: BLE001 - the agent's module is loaded anew, so are its errors
            return error
    return None


def kills(
    scene: Scene, request: str, fault: Fault, tally: Tally, *, exchange: bool = True, twice: bool = False
) -> Iterator[str]:
    """Kill a request at every change; with ``twice``, its recovery too, at every change of it."""
    at = 0
    while True:
        at += 1
        again = 0
        while True:
            again += 1
            good, call = prepare(scene, request)
            plug = Plug(scene.agent, at, fault, exchange=exchange)
            attempt(scene, plug, call)
            tally.states += 1
            tally.mixed += scene.shows() == "mixed"
            second = Plug(scene.agent, again if twice else 0, fault, exchange=exchange)
            attempt(scene, second, lambda journal: journal.recover())
            yield from verdict(scene, good, f"{request}@{at} recover@{again if twice else 0}")
            if not second.dead:
                break
        if not plug.dead:
            return


def errors(scene: Scene, request: str, fault: Fault, tally: Tally, *, exchange: bool = True) -> Iterator[str]:
    """Fail a request at every change: it must answer, and leave all old or all new, unless it says ``Unfinished``."""
    at = 0
    while True:
        at += 1
        good, call = prepare(scene, request)
        plug = Plug(scene.agent, at, fault, exchange=exchange)
        error = attempt(scene, plug, call)
        tally.states += 1
        where = f"{request}@{at} ({plug.calls[-1]})"
        if request == "apply" and isinstance(error, scene.agent.Refused) and scene.snapshot() != good:
            yield f"{where}: refused, but the tree differs: {scene.wrong(good)}"
        if request == "apply" and error is None and scene.shows() != "new":
            yield f"{where}: no error, but the tree is {scene.shows()}"
        if fault is fail_once and plug.hit == "fsync" and request != "recover" and error is None:
            yield f"{where}: a failed fsync was acknowledged"
        yield from verdict(scene, good, where)
        if plug.count < at:
            return


def verdict(scene: Scene, good: Any, where: str) -> Iterator[str]:
    """Recover for good; what is not exactly the known-good tree is a violation."""
    try:
        scene.come_back()
        if wrong := scene.wrong(good):
            yield f"{where}: {wrong}"
    except Exception as error:  # noqa: BLE001 - whatever a mutant does is a violation
        yield f"{where}: recovery failed: {error!r}"
