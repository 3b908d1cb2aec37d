"""Letting go of a kept transaction under SIGKILL: what stands there stands, and an undo is whole or gone."""

from functools import partial
from pathlib import Path

from tests.crash.lines import killed_at

from knowngood.hosts.agent import journal as agent
from knowngood.hosts.agent.plan import Edit


def test_killed_before_any_line(room: Path) -> None:
    target, made = room / "a", room / "b"
    old = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    outcomes: set[str] = set()
    line = number = 0

    def journal() -> agent.Journal:
        return agent.Journal(str(room / "state"))

    def keep(tx: str) -> None:
        target.write_text("hello")
        made.unlink(missing_ok=True)
        journal().apply(tx, [Edit(str(target), old, b"new"), Edit(str(made), None, b"made")])
        journal().keep(tx)

    keep("t0")
    while killed_at(line := line + 1, agent, partial(journal().forget, f"t{number}")):
        journal().recover()
        assert (target.read_text(), made.read_text()) == ("new", "made"), f"line {line}"
        states = [one.state for one in journal().transactions()]
        outcomes.update(states or ["forgotten"])
        if states:
            journal().revert(f"t{number}")
            assert (target.read_text(), made.exists()) == ("hello", False), f"line {line}"
        assert not list(room.glob(".knowngood*")), f"line {line}"
        number += 1
        keep(f"t{number}")
    assert outcomes == {"kept", "forgotten"}
    assert (target.read_text(), made.read_text()) == ("new", "made")
    assert not list(room.glob(".knowngood*"))
