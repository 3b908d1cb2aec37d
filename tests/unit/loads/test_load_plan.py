import json
from pathlib import Path

import pytest

from knowngood.errors import UsageError
from knowngood.loads.client import plan_pass
from knowngood.loads.plan import Plan
from knowngood.model.workload import Lengths, Workload

OUT = Path("samples.jsonl.gz")
CLOSED = Workload(concurrency=4, osl=Lengths(mean=8), isl=Lengths(mean=3))


def body(request: bytes) -> dict[str, object]:
    head, _, content = request.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(content)}".encode() in head
    found: dict[str, object] = json.loads(content)
    return found


def test_a_plan_survives_json() -> None:
    plan = plan_pass("http://127.0.0.1:8000", CLOSED, out=OUT)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("url", "host", "port", "prefix", "authority"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, "", "127.0.0.1:8000"),
        ("http://box/", "box", 80, "", "box:80"),
        ("http://box:1/v1", "box", 1, "", "box:1"),
        ("http://box:1/a/b/", "box", 1, "/a/b", "box:1"),
        ("http://[::1]:9", "::1", 9, "", "[::1]:9"),
    ],
)
def test_urls_are_taken_apart(url: str, host: str, port: int, prefix: str, authority: str) -> None:
    plan = plan_pass(url, CLOSED, out=OUT)
    assert (plan.host, plan.port, plan.prefix, plan.authority) == (host, port, prefix, authority)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://box:8000", "plain HTTP only"),
        ("box:8000", "not a server's URL"),
        ("http://", "not a server's URL"),
        ("http://box:99999", "not a server's URL"),
    ],
)
def test_urls_that_cannot_be_used(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan_pass(url, CLOSED, out=OUT)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (Workload(), "exactly one of concurrency and rate"),
        (Workload(concurrency=1, rate=1.0), "exactly one of concurrency and rate"),
        (Workload(concurrency=1, duration_s=0), "measures nothing"),
        (Workload(concurrency=1, timeout_s=0), "timeout_s"),
        (Workload(concurrency=1, isl=Lengths(mean=4, low=5, high=3)), "high = 3 is below low = 5"),
        (Workload(concurrency=1, prompts="/nonexistent/p.txt"), "cannot read the prompt file"),
    ],
)
def test_workloads_that_cannot_be_used(workload: Workload, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan_pass("http://box", workload, out=OUT)


def test_the_warm_up_is_at_least_one_wave() -> None:
    assert plan_pass("http://box", Workload(concurrency=9, warmup=2), out=OUT).warmup == 9
    assert plan_pass("http://box", Workload(concurrency=2, warmup=5), out=OUT).warmup == 5
    assert plan_pass("http://box", Workload(rate=2.0, warmup=3), out=OUT).warmup == 3


def test_the_first_measured_request_is_number_0() -> None:
    indices = plan_pass("http://box", Workload(concurrency=2), out=OUT).indices()
    assert [next(indices) for _ in range(4)] == [-2, -1, 0, 1]


def test_a_completion_request() -> None:
    plan = plan_pass("http://box:1/x", CLOSED, out=OUT)
    request = plan.request(0, model="m")
    assert request.startswith(b"POST /x/v1/completions HTTP/1.1\r\nHost: box:1\r\n")
    asked = body(request)
    assert len(str(asked.pop("prompt")).split()) == 3
    assert asked == {
        "model": "m",
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "temperature": 0,
        "seed": 0,
    }


def test_a_chat_request_with_fields_of_the_workload() -> None:
    workload = Workload(concurrency=1, endpoint="chat", extra={"temperature": 0.7, "top_k": 4})
    request = plan_pass("http://box", workload, out=OUT).request(3, model="")
    assert request.startswith(b"POST /v1/chat/completions ")
    asked = body(request)
    assert "model" not in asked
    assert "prompt" not in asked
    assert (asked["temperature"], asked["top_k"]) == (0.7, 4)


def test_the_header_of_the_samples_does_not_repeat_the_prompts(tmp_path: Path) -> None:
    prompts = tmp_path / "p.txt"
    prompts.write_text("secret one\nsecret two\n")
    plan = plan_pass("http://box", Workload(concurrency=1, prompts=str(prompts)), out=OUT)
    assert plan.summary()["prompts"] == 2
    assert b"secret two" in plan.request(1, model="")


@pytest.mark.parametrize(
    ("extra", "most"),
    [
        ({}, 16),
        ({"max_tokens": 8}, 8),
        ({"n": 3}, 48),
        ({"best_of": 2}, 32),
        ({"n_predict": 400}, 0),
        ({"max_tokens": "8"}, 0),
    ],
)
def test_most_tokens_of_an_answer_follow_from_what_is_sent(
    extra: dict[str, str | int | float | bool], most: int
) -> None:
    plan = plan_pass("http://h", Workload(concurrency=1, extra=extra), out=Path("x"))
    assert plan.most_tokens(16) == most
