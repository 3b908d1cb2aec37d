"""Raw samples to named metrics. Pure. What each name means is told in ``docs/explanation/load.md``."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from knowngood.loads.samples import CUT, Sample, Samples, Span
from knowngood.model.workload import Slo

QUANTILES: Final = (50, 90, 99)


def summarise(samples: Samples, *, slo: Slo | None = None, is_open: bool = False) -> dict[str, float]:
    """Compute the metrics of one pass. A metric without a sample behind it is left out.

    Latencies are those of measured requests that went well. Rates count, over all requests, what happened inside
    the window: tokens by the time of their event, requests by the share of their time, so that one that straddles an
    edge counts with the part that lies inside.

    Args:
        samples: What was recorded.
        slo: Limits for goodput.
        is_open: Latencies count from the scheduled arrival, not from when the client sent.

    Returns:
        Name to value; units are in the names.
    """
    measured = [one for one in samples.requests if one.phase == "measured"]
    good = [one for one in measured if not one.error]
    metrics: dict[str, float] = {}
    metrics |= _spread("ttft", [_ttft_ms(one, is_open=is_open) for one in good])
    metrics |= _spread("e2e", [_e2e_ms(one, is_open=is_open) for one in good])
    metrics |= _spread("itl", [gap / 1000 for one in good for gap in one.gaps_us])
    metrics |= _spread("tpot", [tpot for one in good if (tpot := _tpot_ms(one)) is not None])
    if is_open:
        metrics |= _spread("ttft_sent", [_ttft_ms(one, is_open=False) for one in good])
        metrics |= _spread("e2e_sent", [_e2e_ms(one, is_open=False) for one in good])
    delays = [(one.sent_us - one.scheduled_us) / 1000 for one in measured]
    metrics |= {name: value for name, value in _spread("schedule_delay", delays).items() if "_p90_" not in name}
    if measured:
        metrics["error_rate"] = (len(measured) - len(good)) / len(measured)
    window = samples.window
    if window is not None and window.end_us > window.start_us:
        metrics |= _rates(samples.requests, window)
        if slo is not None and good:
            metrics["goodput_s"] = (
                metrics["request_s"] * sum(_meets(one, slo, is_open=is_open) for one in good) / len(good)
            )
        if is_open:
            sent = sum(window.start_us <= one.scheduled_us < window.end_us for one in samples.requests)
            metrics["achieved_rate"] = sent / _seconds(window)
    return metrics


def _spread(name: str, values_ms: Sequence[float]) -> dict[str, float]:
    if not values_ms:
        return {}
    points = np.percentile(values_ms, QUANTILES)
    found = {f"{name}_p{q}_ms": float(value) for q, value in zip(QUANTILES, points, strict=True)}
    return {**found, f"{name}_mean_ms": float(np.mean(values_ms))}


def _rates(requests: Sequence[Sample], window: Span) -> dict[str, float]:
    told = [one for one in requests if one.tokens is not None and one.prompt_tokens is not None and _events(one)]
    good = [one for one in requests if not one.error]
    # What was cut off never got to the server's own count, nor to its end: it is taken to be like the others.
    usual_prompt = sum(one.prompt_tokens or 0 for one in told) / len(told) if told else 0.0
    usual_event = sum(one.tokens or 0 for one in told) / sum(map(_events, told)) if told else 1.0
    usual_time = sum(one.e2e_us for one in good) / len(good) if good else 0.0
    output = prompt = finished = 0.0
    for one in requests:
        if one.ttft_us is not None:
            per_event = usual_event if one.tokens is None else one.tokens / _events(one)
            output += per_event * _events_inside(one, window)
            if window.start_us < one.sent_us + one.ttft_us <= window.end_us:
                prompt += usual_prompt if one.prompt_tokens is None else one.prompt_tokens
        if one.error in {"", CUT} and usual_time:
            inside = min(one.sent_us + one.e2e_us, window.end_us) - max(one.sent_us, window.start_us)
            finished += max(0, inside) / (usual_time if one.error else max(1, one.e2e_us))
    seconds = _seconds(window)
    return {
        "output_tokens": output,
        "input_tokens": prompt,
        "output_tok_s": output / seconds,
        "total_tok_s": (output + prompt) / seconds,
        "request_s": finished / seconds,
    }


def _seconds(window: Span) -> float:
    return (window.end_us - window.start_us) / 1e6


def _events(one: Sample) -> int:
    return 0 if one.ttft_us is None else 1 + len(one.gaps_us)


def _events_inside(one: Sample, window: Span) -> int:
    if one.ttft_us is None:
        return 0
    times = one.sent_us + one.ttft_us + np.concatenate(([0], np.cumsum(one.gaps_us, dtype=np.int64)))
    return int(np.count_nonzero((times > window.start_us) & (times <= window.end_us)))


def _from_us(one: Sample, *, is_open: bool) -> int:
    return one.scheduled_us if is_open else one.sent_us


def _ttft_ms(one: Sample, *, is_open: bool) -> float:
    return (one.sent_us + (one.ttft_us or 0) - _from_us(one, is_open=is_open)) / 1000


def _e2e_ms(one: Sample, *, is_open: bool) -> float:
    return (one.sent_us + one.e2e_us - _from_us(one, is_open=is_open)) / 1000


def _tpot_ms(one: Sample) -> float | None:
    """Time from the first to the last event with text, per token after the first; None if that is no time or token."""
    tokens = one.tokens if one.tokens is not None else _events(one)
    return sum(one.gaps_us) / 1000 / (tokens - 1) if one.gaps_us and tokens > 1 else None


def _meets(one: Sample, slo: Slo, *, is_open: bool) -> bool:
    tpot = _tpot_ms(one)
    return not (
        (slo.ttft_ms is not None and _ttft_ms(one, is_open=is_open) > slo.ttft_ms)
        or (slo.tpot_ms is not None and tpot is not None and tpot > slo.tpot_ms)
        or (slo.e2e_ms is not None and _e2e_ms(one, is_open=is_open) > slo.e2e_ms)
    )
