import math

from knowngood.reason.judge import Judge
from knowngood.reason.noise import noise_floor, rate_resolution


def test_few_requests_resolve_little_however_well_runs_agree() -> None:
    assert rate_resolution([3, 3, 2]) == math.sqrt(1 / 6) / 3
    assert rate_resolution([400]) < 0.0011
    assert rate_resolution([]) == rate_resolution([0]) == 0.0
    assert noise_floor([0.0] * 8, resolution=0.1).scale == 0.1
    assert noise_floor([0.3, -0.3] * 4, resolution=0.1).scale > 0.25


def test_runs_in_step_do_not_make_a_lucky_lump_a_keep() -> None:
    def verdict(resolution: float) -> str:
        judge = Judge(profile="quick", noise=[0.0, 0.0, 0.0], resolution=resolution)
        values = {"candidate": 57.6, "baseline": 48.0}
        at = 0.0
        while judge.verdict is None and judge.next_arm is not None:
            at += 10
            judge.add(arm=judge.next_arm, value=values[judge.next_arm] if at < 50 else 48.0, at=at)
        assert judge.verdict is not None
        return judge.verdict.decision

    assert verdict(0.0) == "keep"
    assert verdict(rate_resolution([5])) != "keep"
