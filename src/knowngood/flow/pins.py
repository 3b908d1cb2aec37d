"""Pinned packages beside the environment that stands: an overlay that comes first on the launch's ``PYTHONPATH``."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, cast

import msgspec

from knowngood.errors import Refused, Unreachable
from knowngood.flow.bench import Bench
from knowngood.flow.interpreter import Interpreter, find_interpreter
from knowngood.flow.on_host.overlay import VERSIONS
from knowngood.model.change import PYTHONPATH, ChangeSet, Pin
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Inside

BUILD_S = 1800
ASK_S = 60
DEAF = "an overlay works by PYTHONPATH: take the option away, or name an environment of your own in [server] command"
NO_PIP = "the server's interpreter needs pip: `{python} -m ensurepip`, or set [server] python"
CHECK_PIN = "check name and version; wheels only, built ones can be offered by PIP_FIND_LINKS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Pinned wheels, unpacked.

    Attributes:
        folder: Directory that goes first on the path.
        inherited: ``PYTHONPATH`` that the launch would have from the host.
        python: Interpreter that it was built with.
    """

    folder: str
    inherited: str
    python: str


def build_overlay(bench: Bench, changes: ChangeSet) -> Overlay | None:
    """Build the overlay of a change set's pins, or find it built; None without pins.

    Raises:
        Refused: A pin cannot be built, or the server's interpreter would not look into the overlay.
    """
    pins = changes.pins()
    if not pins:
        return None
    interpreter = find_interpreter(bench.host, bench.config)
    if interpreter.deaf:
        raise Refused(f"{interpreter.path} runs with {interpreter.deaf}, which ignores PYTHONPATH", hint=DEAF)
    request = {
        "home": str(bench.folder / "overlays"),
        "pins": [pin.requirement for pin in pins],
        "packages": [pin.package for pin in pins],
        "deps": any(pin.deps for pin in pins),
    }
    source = resources.files("knowngood.flow.on_host").joinpath("overlay.py").read_text("utf-8")
    bench.show.advance(f"building {', '.join(pin.requirement for pin in pins)}", 0.0)
    found = ask(bench, interpreter, [source, json.dumps(request)], timeout_s=BUILD_S)
    if "error" in found:
        hint = NO_PIP.format(python=interpreter.path) if "No module named pip" in found["said"] else CHECK_PIN
        names = ", ".join(pin.requirement for pin in pins)
        raise Refused(f"{names} cannot be built ({found['error']}): {found['said']}", hint=hint)
    require_seen(pins, found["versions"], interpreter)
    return Overlay(folder=found["overlay"], inherited=found["inherited"], python=interpreter.path)


def require_seen(pins: tuple[Pin, ...], versions: dict[str, str], interpreter: Interpreter) -> None:
    """Make sure that the interpreter finds the pinned packages in the overlay.

    Raises:
        Refused: It finds one elsewhere, or not at all.
    """
    for pin in pins:
        if pin.package not in versions:
            raise Refused(f"{interpreter.path} does not find {pin.package} in the overlay of its pin", hint=DEAF)


def ask(bench: Bench, interpreter: Interpreter, words: list[str], *, timeout_s: float) -> dict[str, Any]:
    """Run a script of ours in the server's interpreter; its answer is one JSON object.

    Raises:
        Refused: It cannot be run, or is too old.
    """
    try:
        done = bench.host.run([interpreter.path, "-I", "-c", *words], timeout_s=timeout_s)
    except Unreachable as error:
        raise Refused(error.message, hint="set [server] python to the server's interpreter") from error
    if done.status:
        said = done.err.decode(errors="replace").strip().splitlines()
        raise Refused(
            f"{interpreter.path} cannot build an overlay: {said[-1] if said else 'no message'}",
            hint="it must be Python 3.8 or newer: set [server] python",
        )
    return cast("dict[str, Any]", json.loads(done.out))


def with_inherited_path(spec: LaunchSpec, overlay: Overlay | None) -> LaunchSpec:
    """The launch with the host's own ``PYTHONPATH`` spelt out, so that an overlay goes before it, not in its place."""
    silent = PYTHONPATH not in spec.env and PYTHONPATH not in spec.unset
    if overlay is None or not overlay.inherited or not silent:
        return spec
    return msgspec.structs.replace(spec, env={**spec.env, PYTHONPATH: overlay.inherited})


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A distribution that an interpreter finds: version, directory, names of the modules and directories it brings."""

    version: str
    place: str
    tops: tuple[str, ...]


def seen_packages(bench: Bench, overlay: Overlay | None, changes: ChangeSet, inside: Inside) -> dict[str, Seen]:
    """Packages that the interpreter finds in the overlay, along the path of a live server."""
    if overlay is None:
        return {}
    names = [pin.package for pin in changes.pins()]
    env = {PYTHONPATH: inside.environ.get(PYTHONPATH, "")}
    done = bench.host.run([overlay.python, "-c", VERSIONS, *names], timeout_s=ASK_S, env=env)
    found = msgspec.json.decode(done.out, type=dict[str, Seen]) if not done.status else {}
    return {name: one for name, one in found.items() if one.place.rstrip("/") == overlay.folder}
