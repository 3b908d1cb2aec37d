"""Settings under SIGKILL before every line of the journal: a value is as before, or it is known that it is not."""

from pathlib import Path

import pytest
from tests.crash.lines import killed_at

from knowngood.hosts.agent import settings as agent
from knowngood.hosts.agent.settings import Knob, SettingsBook


def knobs(folder: Path) -> list[Knob]:
    found: list[Knob] = []
    for name, value in (("one", "11"), ("two", "22")):
        # A file of ours in the place of the kernel's: ``check_knob`` alone would refuse it.
        found.append(Knob(name, str(folder / name), (), (), value))
    return found


@pytest.fixture
def host(room: Path) -> Path:
    for name in ("one", "two"):
        (room / name).write_text("10\n")
    return room


def values(host: Path) -> list[str]:
    return [(host / name).read_text().strip() for name in ("one", "two")]


def book(host: Path) -> SettingsBook:
    return SettingsBook(str(host / "state"))


def apply(host: Path) -> None:
    book(host).apply("t", knobs(host))


def test_killed_before_any_line_of_setting(host: Path) -> None:
    line = 0
    while killed_at(line := line + 1, agent, lambda: apply(host)):
        known = [one.state for one in book(host).transactions()]
        assert known or values(host) == ["10", "10"], f"line {line}"
        book(host).recover()
        assert values(host) == ["10", "10"], f"line {line}"
        assert book(host).transactions() == []
    assert line > 100
    assert values(host) == ["11", "22"]


def test_killed_before_any_line_of_putting_back(host: Path) -> None:
    line = 0
    apply(host)
    while killed_at(line := line + 1, agent, lambda: book(host).revert("t")):
        book(host).recover()
        assert values(host) == ["10", "10"], f"line {line}"
        assert book(host).transactions() == []
        apply(host)
    assert line > 50
    assert values(host) == ["10", "10"]


def test_recovery_killed_before_any_line_is_finished_by_the_next(host: Path) -> None:
    line = 0
    apply(host)
    while killed_at(line := line + 1, agent, lambda: book(host).recover()):
        book(host).recover()
        assert values(host) == ["10", "10"], f"line {line}"
        apply(host)
    assert line > 50


@pytest.mark.parametrize("step", ["keep", "recover"])
def test_a_keep_killed_before_any_line_is_completed_by_recovery(host: Path, step: str) -> None:
    line = 0
    apply(host)
    work = {"keep": lambda: book(host).keep("t"), "recover": lambda: book(host).recover(["t"])}[step]
    while killed_at(line := line + 1, agent, work):
        book(host).recover(["t"])
        assert values(host) == ["11", "22"]
        assert [one.state for one in book(host).transactions()] == ["kept"]
        book(host).revert("t")
        apply(host)
    assert line > 20


def test_setting_again_after_a_reboot_killed_before_any_line(host: Path) -> None:
    line = 0

    def rebooted() -> None:
        apply(host)
        book(host).keep("t")
        for name in ("one", "two"):
            (host / name).write_text("90\n")

    def recover(boot: str) -> None:
        SettingsBook(str(host / "state"), boot=boot).recover()

    rebooted()
    while killed_at(line := line + 1, agent, lambda: recover("two")):
        recover("two")
        assert values(host) == ["11", "22"], f"line {line}"
        SettingsBook(str(host / "state"), boot="two").revert("t")
        assert values(host) == ["90", "90"], f"line {line}"
        for name in ("one", "two"):
            (host / name).write_text("10\n")
        rebooted()
    assert line > 50
