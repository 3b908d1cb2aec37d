from itertools import islice

from knowngood.loads.arrivals import arrivals
from knowngood.loads.pace import Closed, Open
from knowngood.loads.window import Window


def test_a_window_by_requests_closes_with_the_last_measured_one() -> None:
    window = Window(warmup=2, requests=2, duration=0)
    assert [window.admit(at) for at in (1, 2)] == ["warmup", "warmup"]
    assert window.start is None
    window.finish("warmup", 9)
    assert [window.admit(at) for at in (10, 11, 12)] == ["measured", "measured", "filler"]
    assert window.start == 10
    window.finish("measured", 20)
    window.finish("filler", 21)
    window.finish("warmup", 22)
    assert window.share(22) == 0.5
    assert window.end is None
    window.finish("measured", 30)
    assert window.is_over
    assert (window.share(31), str(window.end)) == (1.0, "30")


def test_a_window_by_time_measures_to_the_end_what_was_sent_in_it() -> None:
    window = Window(warmup=0, requests=0, duration=100)
    assert window.closes_at() is None
    assert [window.admit(at) for at in (50, 149, 150)] == ["measured", "measured", "filler"]
    assert window.closes_at() == 150
    window.tick(149)
    assert window.end is None
    window.finish("measured", 100)
    assert window.share(100) == 0.5
    window.tick(155)
    assert window.end == 150
    assert not window.is_over
    window.finish("filler", 160)
    assert not window.is_over
    window.finish("measured", 170)
    assert window.is_over


def test_a_window_does_not_close_before_it_opened() -> None:
    window = Window(warmup=1, requests=0, duration=10)
    window.admit(0)
    window.tick(1000)
    assert window.end is None
    assert window.share(1000) == 0.0


def test_closed_loops_send_into_the_slot_that_was_free_first() -> None:
    pace = Closed(slots=2, start=5)
    assert [pace.take(), pace.take()] == [5, 5]
    assert pace.due() is None
    pace.release(30)
    pace.release(20)
    assert [pace.due(), pace.take(), pace.take()] == [20, 20, 30]


def test_open_loops_do_not_wait_for_answers() -> None:
    pace = Open(arrivals=arrivals(2.0, "constant", seed=0), start=1_000)
    taken = [pace.take() for _ in range(3)]
    pace.release(7)
    assert taken == [1_000, 500_001_000, 1_000_001_000]
    assert pace.due() == 1_500_001_000


def test_open_loops_follow_their_arrivals() -> None:
    pace = Open(arrivals=arrivals(100.0, "poisson", seed=4), start=0)
    expected = [round(at * 1e9) for at in islice(arrivals(100.0, "poisson", seed=4), 10)]
    assert [pace.take() for _ in range(10)] == expected
