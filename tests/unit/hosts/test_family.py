import os
from pathlib import Path

import pytest

from knowngood.hosts.agent import proc
from knowngood.hosts.agent.family import Family
from knowngood.hosts.agent.proc import Stat


@pytest.fixture(autouse=True)
def no_real_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    return tmp_path


def table(*rows: tuple[int, int, int]) -> dict[int, Stat]:
    """Rows of pid, parent, session; they started at ten times their pid."""
    return {
        pid: Stat(pid=pid, state="S", parent=parent, session=session, cpu_s=0, reaped_s=0, start=pid * 10)
        for pid, parent, session in rows
    }


def pids(family: Family, found: dict[int, Stat]) -> list[int]:
    return [member.pid for member in family.members(found)]


def test_leader_session_and_descent() -> None:
    family = Family("t", (100, 1000))
    assert pids(family, table((1, 0, 1), (100, 1, 100), (101, 1, 100), (102, 101, 102), (103, 102, 103))) == [
        100,
        101,
        102,
        103,
    ]


def test_a_reused_leader_is_a_stranger() -> None:
    assert pids(Family("t", (100, 999)), table((100, 1, 100), (101, 100, 100))) == []


def test_who_was_seen_once_stays_known() -> None:
    family = Family("t", (100, 1000))
    pids(family, table((100, 1, 100), (101, 100, 101)))
    assert pids(family, table((101, 1, 101), (200, 101, 200))) == [101, 200]


def test_a_session_whose_members_are_all_gone_is_a_strangers() -> None:
    family = Family("t", (100, 1000))
    pids(family, table((100, 1, 100)))
    assert pids(family, table((300, 1, 100))) == []


def test_the_marker_tells(tmp_path: Path) -> None:
    for pid, environment in ((300, b"A=1\0KNOWNGOOD_LAUNCH=t\0"), (301, b"KNOWNGOOD_LAUNCH=tt\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "environ").write_bytes(environment)
    assert pids(Family("t", None), table((300, 1, 300), (301, 1, 301), (302, 300, 302))) == [300, 302]


def test_this_process_and_those_above_it_are_never_members(tmp_path: Path) -> None:
    me = os.getpid()
    (tmp_path / str(me)).mkdir()
    (tmp_path / str(me) / "environ").write_bytes(b"KNOWNGOOD_LAUNCH=t\0")
    family = Family("t", (90, 900))
    assert pids(family, table((90, 1, 90), (me, 90, 90), (91, 90, 90))) == [91]
