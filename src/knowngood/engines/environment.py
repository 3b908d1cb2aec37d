"""Whether a variable is in the environment of the processes that serve, and what the engine made of it."""

import re

from knowngood.model.change import Env
from knowngood.model.process import LiveProcess
from knowngood.ports import Observed

DEVICES = re.compile(r"VISIBLE_DEVICES$")
"""Variables whose list an engine deals out among its workers."""


def prove_env(change: Env, observed: Observed, *, workers: str) -> tuple[bool | None, str]:
    """Look into the environment of every live process.

    Args:
        change: The member.
        observed: What the running server showed.
        workers: Regular expression of the titles of processes that must have it, too; empty for none.
    """
    leader, environ = min(observed.inside.pids, default=0), observed.inside.environ
    value = environ.get(change.name)
    if environ and not is_set(change, value):
        return False, f"{spell(change.name, value)} in the environment of process {leader}"
    others = [one for one in observed.inside.processes if one.environ and one.pid != leader]
    wrong = next((one for one in others if not agrees(change, one, workers=workers)), None)
    if wrong is not None:
        said = f"{spell(change.name, wrong.environ.get(change.name))} in the environment of"
        return False, f"{said} process {wrong.pid} ({wrong.title}): the server has overwritten it"
    having = [one for one in others if is_set(change, one.environ.get(change.name))]
    if environ:
        more = f" and of {len(having)} more" if having else ""
        return True, f"{spell(change.name, value)} in the environment of process {leader}{more}"
    if not having:
        return None, f"the environment of process {leader} cannot be read"
    return True, f"{spell(change.name, change.value)} in the environment of process {having[0].pid} ({having[0].title})"


def is_set(change: Env, value: str | None) -> bool:
    """Whether a value is the one asked for."""
    return value == change.value


def agrees(change: Env, process: LiveProcess, *, workers: str) -> bool:
    """Whether a process other than the first has what was asked for; helpers may do without it."""
    value = process.environ.get(change.name)
    if value is None:
        return change.value is None or not workers or not re.search(workers, process.title)
    if change.value is not None and DEVICES.search(change.name):
        return set(value.split(",")) <= set(change.value.split(","))
    return is_set(change, value)


def spell(name: str, value: str | None) -> str:
    """A variable as it reads in evidence."""
    return f"{name} is not" if value is None else f"{name}={value}"
