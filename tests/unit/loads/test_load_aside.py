import errno
import threading
from functools import partial

import pytest

from knowngood.loads.aside import Aside


def test_tasks_are_done_in_order_by_another_thread() -> None:
    seen: list[tuple[int, bool]] = []

    def note(number: int) -> None:
        seen.append((number, threading.current_thread() is threading.main_thread()))

    aside = Aside()
    for number in range(50):
        aside.do(partial(note, number))
    aside.close()
    assert seen == [(number, False) for number in range(50)]


def test_a_failure_is_told_and_stops_the_rest() -> None:
    started = threading.Event()
    seen: list[int] = []

    def fail() -> None:
        started.wait()
        raise OSError(errno.ENOSPC, "full")

    aside = Aside()
    aside.do(fail)
    aside.do(lambda: seen.append(1))
    started.set()
    with pytest.raises(OSError, match="full"):
        aside.close()
    assert seen == []
    with pytest.raises(OSError, match="full"):
        aside.do(lambda: seen.append(2))
