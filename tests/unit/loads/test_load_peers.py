"""Real results of others' clients, cut down to what is read: the same mock server, with stalls and with failures.

Stalls: first token after 50 ms, gaps of 10 ms, every eighth 60 ms; 8 requests of 24 tokens, 2 at once. Failures: every
third request is answered by HTTP 500.
"""

import shutil
from pathlib import Path

import pytest

from knowngood.loads.peers import PEERS
from knowngood.loads.peers.peer import Job, Reading
from knowngood.model.workload import Workload

RECORDED = Path(__file__).parent / "peers"
RESULTS = {
    "aiperf": ("aiperf-0.13.0", "profile_export_aiperf.json"),
    "guidellm": ("guidellm-0.8.1", "result.json"),
    "vllm": ("vllm-0.32.0", "result.json"),
}
OVER_GAPS = {"aiperf", "vllm"}


def read(name: str, kind: str, folder: Path) -> Reading:
    version, result = RESULTS[name]
    shutil.copy(RECORDED / f"{version}-{kind}.json", folder / result)
    job = Job(url="", model="mock", tokenizer="", workload=Workload(requests=8), seed=0, folder=folder)
    return PEERS[name].read(job)


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_units_and_names_are_ours(name: str, tmp_path: Path) -> None:
    found = read(name, "stalls", tmp_path)
    assert (found.requests, found.error_kinds, found.metrics["error_rate"]) == (8, {}, 0)
    assert 50 < found.metrics["ttft_p50_ms"] < 100
    assert 370 < found.metrics["e2e_p50_ms"] < 420
    assert 4 < found.metrics["request_s"] < 6
    assert found.metrics["goodput_s"] == pytest.approx(found.metrics["request_s"])
    assert found.metrics["output_tok_s"] == pytest.approx(24 * found.metrics["request_s"])
    assert found.metrics["total_tok_s"] > found.metrics["output_tok_s"]


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_stall_shows_over_gaps_and_hides_in_means_of_requests(name: str, tmp_path: Path) -> None:
    metrics = read(name, "stalls", tmp_path).metrics
    assert metrics["tpot_p99_ms"] < 15
    assert ("itl_p99_ms" in metrics) == (name in OVER_GAPS)
    if name in OVER_GAPS:
        assert metrics["itl_p99_ms"] > 55
        assert 9 < metrics["itl_p50_ms"] < 11


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_failed_requests_are_counted(name: str, tmp_path: Path) -> None:
    found = read(name, "errors", tmp_path)
    assert sum(found.error_kinds.values()) == 2
    # guidellm counts the requests that overlap its window.
    assert found.requests == (7 if name == "guidellm" else 8)
    assert found.metrics["error_rate"] == 2 / found.requests
