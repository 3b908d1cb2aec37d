"""Traces as they are: nested, cut off, merged, damaged; and one that two real ranks wrote."""

import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowngood.errors import UsageError
from knowngood.model.profile import StepProfile, Timeline
from knowngood.readers.chrome import Events, read_chrome
from knowngood.readers.sniff import read_any
from knowngood.reason.steptime.attribute import attribute

DATA = Path(__file__).parents[2] / "data" / "steptime"
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"


def kernel(name: str, ts: float, dur: float, *, pid: int = 0, correlation: int = 0) -> dict[str, Any]:
    args = {"device": pid, "stream": 7, "correlation": correlation}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": pid, "tid": 7, "ts": ts, "dur": dur, "args": args}


def op(name: str, ts: float, dur: float, *, tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur}


def step(number: int, ts: float, dur: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": f"ProfilerStep#{number}",
        "pid": 9,
        "tid": 1,
        "ts": ts,
        "dur": dur,
    }


def write(folder: Path, events: list[dict[str, Any]], name: str = "trace.json") -> Path:
    path = folder / name
    path.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events, "traceName": "x"})
    )
    return path


def profile(*paths: Path) -> StepProfile:
    found = attribute([read_chrome(path) for path in paths])
    assert found is not None
    parts = sum(part.ms for part in found.parts)
    assert parts + found.idle_ms == pytest.approx(found.step_ms)
    return found


def ms(found: StepProfile) -> dict[str, float]:
    return {part.category: round(part.ms, 6) for part in found.parts if part.ms > 1e-9}


def test_kernels_idle_and_overlap(tmp_path: Path) -> None:
    events = [kernel("gemm", 0, 4000), kernel(ALLREDUCE, 3000, 3000), kernel("gemm", 8000, 2000)]
    found = profile(write(tmp_path, events))
    assert ms(found) == {"gemm": 6.0, "comm.allreduce": 2.0}
    assert found.step_ms == 10
    assert found.idle_ms == pytest.approx(2)
    assert found.overlap_ms == pytest.approx(1)
    assert found.collectives[0].mean_us == 3000


def test_a_kernel_inside_a_longer_one_is_overlap_only(tmp_path: Path) -> None:
    found = profile(write(tmp_path, [kernel("gemm", 0, 10), kernel("softmax", 2, 3), kernel("gemm", 4, 9)]))
    assert ms(found) == {"gemm": 0.013}
    assert found.overlap_ms == pytest.approx(0.009)


def test_step_marks_bound_the_window(tmp_path: Path) -> None:
    events = [
        step(1, 100, 50),
        step(2, 150, 50),
        kernel("gemm", 90, 20),
        kernel("gemm", 160, 20),
        kernel("gemm", 300, 50),
    ]
    found = profile(write(tmp_path, events))
    assert found.steps == 2
    assert found.step_ms == pytest.approx(0.05)
    assert ms(found) == {"gemm": 0.015}


def graph(ts: float, correlation: int) -> dict[str, Any]:
    args = {"correlation": correlation}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaGraphLaunch",
        "pid": 9,
        "tid": 1,
        "ts": ts,
        "dur": 5,
        "args": args,
    }


def test_graph_launches_bound_steps_and_a_round_may_have_two(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    for number in range(5):
        at = 1000 * number
        events += [graph(at, 10 + 2 * number), graph(at + 10, 11 + 2 * number)]
        events += [kernel("gemm", at + 20, 100, correlation=10 + 2 * number)]
        events += [kernel(ALLREDUCE, at + 200 + 30 * k, 20, correlation=11 + 2 * number) for k in range(4)]
    random.Random(3).shuffle(events)
    found = profile(write(tmp_path, events))
    assert found.bounded_by == "graph launches, 2 a step"
    assert found.steps == 4
    assert found.step_ms == pytest.approx(1)
    assert ms(found) == {"gemm": 0.1, "comm.allreduce": 0.08}
    assert found.collectives[0].count == 4


def test_collectives_bound_steps_where_nothing_else_does(tmp_path: Path) -> None:
    events = [kernel(ALLREDUCE, 100 * number, 30) for number in range(13)]
    found = attribute([read_chrome(write(tmp_path, events))], per_step=4)
    assert found is not None
    assert found.steps == 3
    assert found.step_ms == pytest.approx(0.4)


def test_nested_operations_count_once_by_the_innermost(tmp_path: Path) -> None:
    events = [
        op("aten::linear", 0, 100),
        op("aten::addmm", 10, 80),
        op("aten::copy_", 20, 10),
        op("aten::silu", 200, 50),
    ]
    found = profile(write(tmp_path, events))
    assert ms(found) == {"gemm": 0.09, "memops": 0.01, "activation": 0.05}
    assert found.idle_ms == pytest.approx(0.1)


def test_an_operation_that_outlasts_its_parent_is_cut(tmp_path: Path) -> None:
    found = profile(write(tmp_path, [op("aten::linear", 0, 100), op("aten::copy_", 90, 50), op("aten::silu", 150, 50)]))
    assert ms(found) == {"gemm": 0.09, "memops": 0.01, "activation": 0.05}


def test_begin_and_end_are_a_duration_and_a_missing_end_is_said(tmp_path: Path) -> None:
    begin = {"ph": "B", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 1, "ts": 0}
    end = {"ph": "E", "pid": 9, "tid": 1, "ts": 40}
    lost = {**begin, "ts": 60, "tid": 2}
    stray = {**end, "tid": 3}
    made = read_chrome(write(tmp_path, [begin, end, lost, stray]))
    assert [list(lane.durations) for lane in made.lanes] == [[40.0]]
    assert made.notes == ["trace.json: 1 events never end; they are not counted"]


def test_flows_counters_metadata_and_broken_times_are_passed_over(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        {"ph": "s", "id": 1, "pid": 0, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 2, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "C", "name": "Memory", "pid": 0, "ts": 3, "args": {"bytes": 1}},
        {"ph": "i", "name": "Iteration Start", "pid": 0, "ts": 3, "s": "g"},
        kernel("gemm", 0, 10),
        {**kernel("gemm", 0, 10), "dur": -5},
        {**kernel("gemm", 0, 10), "dur": None},
        {**kernel("gemm", 0, 10), "ts": "soon"},
        {**kernel("gemm", 20, 10), "ts": "20.0"},
        {**kernel("gemm", 0, 10), "args": None, "ts": 40},
    ]
    made = read_chrome(write(tmp_path, events))
    assert sum(len(lane.starts) for lane in made.lanes) == 3
    assert made.notes == ["trace.json: 3 events have no proper time; they are not counted"]


def test_devices_of_one_file_are_ranks_and_waiting_is_told_from_transport(tmp_path: Path) -> None:
    slow = [kernel("gemm", 0, 90, pid=0), kernel(ALLREDUCE, 90, 10, pid=0), kernel(ALLREDUCE, 200, 12, pid=0)]
    fast = [kernel("gemm", 0, 40, pid=1), kernel(ALLREDUCE, 40, 60, pid=1), kernel(ALLREDUCE, 200, 12, pid=1)]
    found = profile(write(tmp_path, slow + fast))
    assert found.ranks == 2
    assert found.collectives[0].transport_us == pytest.approx(11)
    assert found.collectives[0].wait_us == pytest.approx(12.5)


def test_ranks_with_different_counts_are_not_matched(tmp_path: Path) -> None:
    one = write(tmp_path, [kernel(ALLREDUCE, 0, 10), kernel(ALLREDUCE, 20, 10)], "a.json")
    other = write(tmp_path, [kernel(ALLREDUCE, 0, 10)], "b.json")
    found = profile(one, other)
    assert found.collectives[0].wait_us is None
    assert found.notes == ("comm.allreduce: ranks have 2, 1 instances, so waiting cannot be told from transport",)


@pytest.mark.parametrize("packed", [False, True])
def test_cut_off_at_any_place_keeps_what_came_before(tmp_path: Path, *, packed: bool) -> None:
    whole = json.dumps({"traceEvents": [kernel(f"gemm{number}", 10 * number, 5) for number in range(200)]}).encode()
    data = gzip.compress(whole) if packed else whole
    last = 0
    for cut in range(len(data) // 2, len(data) - 1, len(data) // 40):
        path = tmp_path / "cut.json"
        path.write_bytes(data[:cut])
        made = read_chrome(path)
        count = sum(len(lane.starts) for lane in made.lanes)
        assert last <= count < 200 or (packed and count <= 200)
        assert any("cut off after" in note for note in made.notes)
        last = count
    assert last > 100


def test_damage_in_the_middle_ends_the_reading_and_says_where(tmp_path: Path) -> None:
    good = json.dumps(kernel("gemm", 0, 5))
    text = '{"traceEvents": [' + good + ', {"ph": "X" "cat": 1}, ' + ", ".join([good] * 100) + "]}"
    path = tmp_path / "damaged.json"
    path.write_text(text)
    made = read_chrome(path)
    assert sum(len(lane.starts) for lane in made.lanes) == 1
    assert "damaged after" in made.notes[0]


def test_array_form_without_its_last_bracket(tmp_path: Path) -> None:
    path = tmp_path / "array.json"
    path.write_text("[\n" + json.dumps(kernel("gemm", 0, 5)) + ",\n")
    assert [len(lane.starts) for lane in read_chrome(path).lanes] == [1]


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[]", '{"traceEvents": 3}', '{"a" 1}', "[" * 100_000, '{"traceEvents": [}']
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "no.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="holds no kernel"):
        read_chrome(path)


def test_names_with_brackets_quotes_and_broken_text(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    text = json.dumps({"traceEvents": [kernel('void f<"}]{[",\\>(x)', 0, 5), kernel("gemm\n", 9, 1)]}).encode()
    path.write_bytes(text.replace(b"gemm", b"gemm\xff\t"))
    (lane,) = read_chrome(path).lanes
    assert list(lane.durations) == [5, 1]


class Trickle(io.BytesIO):
    """Bytes in the pieces that a seed says."""

    def __init__(self, data: bytes, seed: int) -> None:
        super().__init__(data)
        self.random = random.Random(seed)

    def read1(self, size: int | None = -1, /) -> bytes:
        del size
        return self.read(self.random.randint(1, 40))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=12), st.integers(0, 1000), st.booleans())
@settings(max_examples=150, deadline=None)
def test_streaming_sees_what_a_whole_parse_sees(events: list[dict[str, Any]], seed: int, ascii_only: bool) -> None:  # noqa: FBT001
    doc = {"before": [1, {"traceEvents": "no"}], "traceEvents": events, "after": {"x": 1}}
    reading = Events(Trickle(json.dumps(doc, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"), seed))
    seen = list(reading)
    assert reading.cut == ""
    if ascii_only:
        assert seen == events
        assert reading.head == {"after": {"x": 1}}
    assert len(seen) == len(events)


@given(st.binary(max_size=200), st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_no_bytes_break_the_reader(noise: bytes, seed: int) -> None:
    base = bytearray(json.dumps({"traceEvents": [kernel("gemm", 0, 5)] * 3}).encode())
    at = seed % len(base)
    base[at:at] = noise
    # What it reads cannot be more objects than there are braces.
    assert len(list(Events(Trickle(bytes(base), seed)))) <= base.count(b"{")


def test_a_trace_of_two_real_ranks() -> None:
    paths = sorted(DATA.glob("two-ranks-TP-*.trace.json.gz"))
    timelines = [line for path in paths for line in read_any(path) if isinstance(line, Timeline)]
    found = attribute(timelines)
    assert found is not None
    assert found.ranks == 2
    assert found.steps == 4
    assert found.bounded_by == "the profiler's own step marks"
    parts = sum(part.ms for part in found.parts)
    assert parts + found.idle_ms == pytest.approx(found.step_ms, rel=0.02)
    assert parts > 0.5 * found.step_ms
    (allreduce,) = found.collectives
    assert allreduce.count == 4
    # Rank 1 multiplies four times as much, so rank 0 waits for it.
    assert allreduce.wait_us is not None
    assert allreduce.transport_us is not None
    assert allreduce.wait_us > 0.2 * allreduce.transport_us
    assert {"gemm", "comm.allreduce", "activation", "norm"} <= {part.category for part in found.parts}


def test_the_marks_of_the_real_trace_are_as_long_as_its_budget() -> None:
    for path in DATA.glob("two-ranks-TP-*.trace.json.gz"):
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
        marks = [event for event in events if str(event.get("name")).startswith("ProfilerStep")]
        span = max(event["ts"] + event["dur"] for event in marks) - min(event["ts"] for event in marks)
        found = attribute([read_chrome(path)])
        assert found is not None
        assert found.step_ms * 1e3 * len(marks) == pytest.approx(span, rel=1e-9)
