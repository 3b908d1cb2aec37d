import pytest

from knowngood.loads.samples import Header, Sample, Samples, Span
from knowngood.loads.summary import summarise
from knowngood.model.workload import Slo


def sample(  # noqa: PLR0913 - a row of a table
    phase: str = "measured",
    *,
    sent: int = 0,
    late: int = 0,
    ttft: int | None = 50_000,
    gaps: tuple[int, ...] = (10_000, 10_000),
    e2e: int = 80_000,
    tokens: int | None = 3,
    prompt: int | None = 5,
    error: str = "",
) -> Sample:
    assert phase in {"warmup", "measured", "filler"}
    return Sample(
        index=0,
        phase=phase,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        scheduled_us=sent - late,
        sent_us=sent,
        status=200,
        e2e_us=e2e,
        ttft_us=ttft,
        gaps_us=list(gaps),
        tokens=tokens,
        prompt_tokens=prompt,
        error=error,
    )


def samples(*requests: Sample, window: tuple[int, int] | None = (0, 1_000_000)) -> Samples:
    span = Span(start_us=window[0], end_us=window[1]) if window else None
    return Samples(header=Header(version=1), requests=requests, window=span)


def test_one_request_by_hand() -> None:
    metrics = summarise(samples(sample(sent=100_000)))
    assert metrics == pytest.approx(
        {
            **{f"ttft_{name}_ms": 50 for name in ("p50", "p90", "p99", "mean")},
            **{f"itl_{name}_ms": 10 for name in ("p50", "p90", "p99", "mean")},
            **{f"tpot_{name}_ms": 10 for name in ("p50", "p90", "p99", "mean")},
            **{f"e2e_{name}_ms": 80 for name in ("p50", "p90", "p99", "mean")},
            **{f"schedule_delay_{name}_ms": 0 for name in ("p50", "p99", "mean")},
            "error_rate": 0,
            "output_tokens": 3,
            "input_tokens": 5,
            "output_tok_s": 3,
            "total_tok_s": 8,
            "request_s": 1,
        }
    )


def test_itl_is_over_all_gaps_so_a_stall_is_seen() -> None:
    calm, stalled = sample(gaps=(10_000,) * 98, tokens=99), sample(gaps=(110_000, 10_000), tokens=3)
    metrics = summarise(samples(calm, stalled))
    assert metrics["itl_p50_ms"] == 10
    assert metrics["itl_p99_ms"] == pytest.approx(10 + 0.01 * 100)  # position 98.01 of 0..99 sorted gaps
    assert metrics["itl_mean_ms"] == pytest.approx(11)
    assert metrics["tpot_p50_ms"] == pytest.approx((10 + 60) / 2)


def test_events_may_hold_several_tokens() -> None:
    metrics = summarise(samples(sample(gaps=(40_000,), tokens=9)))
    assert metrics["itl_p50_ms"] == 40
    assert metrics["tpot_p50_ms"] == 5
    assert metrics["output_tokens"] == 9


def test_without_usage_events_are_tokens() -> None:
    metrics = summarise(samples(sample(tokens=None, prompt=None)))
    assert (metrics["output_tokens"], metrics["input_tokens"], metrics["tpot_p50_ms"]) == (3, 0, 10)


def test_a_request_that_straddles_an_edge_counts_with_the_part_inside() -> None:
    # Events at -10, 0 (excluded: the window is open at its start), 10 ms; it ends at 20 ms.
    before = sample("warmup", sent=-60_000, tokens=6, prompt=100)
    # Events at 990, 1000 (included), 1010 ms.
    after = sample("filler", sent=940_000, tokens=3, prompt=7)
    metrics = summarise(samples(before, after))
    assert metrics["output_tokens"] == 2 + 2
    assert metrics["input_tokens"] == 7
    assert metrics["request_s"] == pytest.approx(20 / 80 + 60 / 80)
    assert "ttft_p50_ms" not in metrics


def test_what_was_cut_counts_like_the_others() -> None:
    whole = sample(sent=0, tokens=6, prompt=5, e2e=100_000)
    cut = sample("filler", sent=950_000, ttft=20_000, gaps=(10_000,), e2e=50_000, tokens=None, prompt=None, error="cut")
    metrics = summarise(samples(whole, cut))
    assert metrics["output_tokens"] == 6 + 2 * 2
    assert metrics["input_tokens"] == 5 + 5
    assert metrics["request_s"] == pytest.approx(1.5)
    assert metrics["error_rate"] == 0


def test_a_wave_in_lockstep_is_counted_once() -> None:
    # Two waves of four; the warm-up wave ends just inside the window, the fillers start at its very end.
    warm = [sample("warmup", sent=-79_999) for _ in range(3)]
    waves = [sample(sent=start) for start in (0, 80_000) for _ in range(4)]
    fill = [sample("filler", sent=160_000, ttft=None, gaps=(), e2e=10, tokens=None, error="cut") for _ in range(4)]
    metrics = summarise(samples(*warm, *waves, *fill, window=(0, 160_000)))
    assert metrics["request_s"] == pytest.approx(8 / 0.16, rel=1e-3)


def test_failed_requests_count_as_errors_and_not_in_latencies() -> None:
    failed = sample(ttft=900_000, gaps=(), tokens=None, prompt=None, error="timeout", e2e=950_000)
    metrics = summarise(samples(sample(), failed))
    assert metrics["error_rate"] == 0.5
    assert metrics["ttft_p99_ms"] == 50
    assert metrics["request_s"] == 1
    assert metrics["output_tokens"] == 4  # the failed one's first event did arrive


def test_nothing_but_errors_leaves_no_latencies() -> None:
    metrics = summarise(samples(sample(ttft=None, gaps=(), tokens=None, error="refused")))
    assert metrics["error_rate"] == 1
    assert metrics["request_s"] == 0
    assert not any(name.startswith(("ttft", "itl", "e2e", "tpot")) for name in metrics)


def test_open_loops_count_from_the_schedule() -> None:
    metrics = summarise(samples(sample(sent=100_000, late=30_000), sample(sent=1_200_000)), is_open=True)
    assert metrics["ttft_p99_ms"] == pytest.approx(50 + 0.99 * 30)
    assert metrics["ttft_sent_p99_ms"] == 50
    assert metrics["e2e_mean_ms"] == 95
    assert metrics["e2e_sent_mean_ms"] == 80
    assert metrics["schedule_delay_p99_ms"] == pytest.approx(0.99 * 30)
    assert metrics["achieved_rate"] == 1


@pytest.mark.parametrize(
    ("slo", "share"),
    [
        (Slo(), 1),
        (Slo(ttft_ms=50), 1),
        (Slo(ttft_ms=49.9), 0),
        (Slo(tpot_ms=15), 0.5),
        (Slo(e2e_ms=80), 0.5),
        (Slo(ttft_ms=100, tpot_ms=100, e2e_ms=100), 1),
    ],
)
def test_goodput_is_the_rate_of_requests_within_all_limits(slo: Slo, share: float) -> None:
    metrics = summarise(samples(sample(), sample(gaps=(20_000, 20_000), e2e=100_000)), slo=slo)
    assert metrics["goodput_s"] == pytest.approx(2 * share)


def test_a_pass_cut_off_in_its_window_has_latencies_but_no_rates() -> None:
    metrics = summarise(samples(sample(), window=None))
    assert metrics["ttft_p50_ms"] == 50
    assert "output_tok_s" not in metrics


def test_no_samples_give_no_metrics() -> None:
    assert summarise(samples(window=None)) == {}
