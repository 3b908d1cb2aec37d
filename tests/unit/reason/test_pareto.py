from knowngood.model.evidence import LaunchRecord, RunRecord
from knowngood.reason.pareto import pareto, usual_metrics

METRICS = ("output_tok_s", "ttft_p99_ms")


def launch(candidate: str, tok_s: float, ttft: float | None) -> LaunchRecord:
    metrics = {"output_tok_s": tok_s} | ({} if ttft is None else {"ttft_p99_ms": ttft})
    return LaunchRecord(
        arm="candidate" if candidate else "baseline",
        candidate=candidate,
        index=0,
        started_at=0.0,
        ready_s=1.0,
        runs=(RunRecord(workload="w", metrics=metrics), RunRecord(workload="guard", metrics={"output_tok_s": 1.0})),
        value=tok_s,
    )


def front(*launches: LaunchRecord) -> dict[str, bool]:
    points = pareto(launches, METRICS, workload="w", lower_is_better=(False, True))
    return {one.name: one.on_front for one in points}


def test_who_is_beaten_in_both_is_not_on_the_front() -> None:
    found = front(launch("", 100, 50), launch("fast", 200, 60), launch("slow", 90, 70), launch("quick", 100, 40))
    assert found == {"fast": True, "quick": True, "": False, "slow": False}
    assert next(iter(found)) == "fast"


def test_equals_are_both_on_the_front() -> None:
    assert front(launch("a", 100, 50), launch("b", 100, 50)) == {"a": True, "b": True}


def test_medians_count_and_who_lacks_a_metric_is_left_out() -> None:
    launches = (launch("a", 100, 50), launch("a", 300, 70), launch("a", 110, 60), launch("b", 500, None))
    (point,) = pareto(launches, METRICS, workload="w", lower_is_better=(False, True))
    assert (point.name, point.x, point.y, point.launches) == ("a", 110, 60, 3)


def test_the_usual_metrics_weigh_throughput_against_waiting() -> None:
    assert usual_metrics("output_tok_s", lower_is_better=False) == ("output_tok_s", "ttft_p99_ms")
    assert usual_metrics("itl_p99_ms", lower_is_better=True) == ("output_tok_s", "itl_p99_ms")
