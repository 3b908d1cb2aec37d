from knowngood.reason.ledger import since_last_step, trim_ledger

CALM = [(600.0 * at, value) for at, value in enumerate((100.0, 102.0, 101.0, 99.0, 101.0))]


def test_ledger_keeps_the_five_newest_of_the_last_two_hours() -> None:
    entries = [(float(at), 100.0 + at) for at in (0, 9000, 3000, 4000, 5000, 6000, 7000, 8000)]
    assert [at for at, _ in trim_ledger(entries, now=8500.0)] == [4000, 5000, 6000, 7000, 8000]
    assert trim_ledger(entries, now=-1.0) == ()
    assert trim_ledger([(0.0, 1.0)], now=7200.1) == ()


def test_a_calm_ledger_stays_whole() -> None:
    assert since_last_step(CALM, scale=0.03) == tuple(CALM)


def test_what_was_measured_before_a_step_is_left_out() -> None:
    stepped = [*CALM[:3], *((at, 1.3 * value) for at, value in CALM[3:])]
    assert since_last_step(stepped, scale=0.03) == tuple(stepped[3:])


def test_one_launch_far_out_at_the_end_may_be_a_step() -> None:
    assert since_last_step([*CALM[:4], (2400.0, 70.0)], scale=0.03) == ((2400.0, 70.0),)


def test_a_slow_drift_is_no_step() -> None:
    drift = [(1800.0 * at, 100.0 + 2 * at) for at in range(5)]
    assert since_last_step(drift, scale=0.04) == tuple(drift)


def test_a_short_ledger_has_no_steps() -> None:
    assert since_last_step([], scale=0.03) == ()
    assert since_last_step(CALM[:1], scale=0.03) == tuple(CALM[:1])
