import json
from pathlib import Path

import pytest

from knowngood.errors import LoadError
from knowngood.loads.metrics import NoMetrics, last_object
from knowngood.loads.program import Program
from knowngood.model.evidence import RunRecord
from knowngood.model.workload import Workload
from knowngood.ports import Target


def measure(tmp_path: Path, log: str, *, metrics_file: str = "", lives: int = 0) -> RunRecord:
    path = tmp_path / "program.log"
    path.write_text(log)
    answers = iter([True] * lives)
    target = Target(url="", alive=lambda: next(answers, False), log=path)
    marks: list[str] = []
    record = Program(metrics_file).measure(
        target,
        Workload(timeout_s=0.2),
        out=tmp_path / "out.json",
        progress=lambda share: marks.append(f"{share:g}"),
        mark=lambda: marks.append("mark"),
    )
    assert marks == ["mark", "mark", "1"]
    return record


def test_the_last_json_object_of_the_log_counts(tmp_path: Path) -> None:
    log = (
        'start\n{"tok_s": 1}\n{"tok_s": 2.5, "latency": {"p50": 3, "ok": true, "name": "x", "all": [4, 5]}}\n[9]\nbye\n'
    )
    record = measure(tmp_path, log, lives=2)
    assert record.metrics == {"tok_s": 2.5, "latency.p50": 3.0, "latency.all.0": 4.0, "latency.all.1": 5.0}
    assert record.seconds > 0
    assert json.loads((tmp_path / "out.json").read_text())["tok_s"] == 2.5


def test_a_metrics_file_may_be_of_many_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps({"a": {"b": 1}}, indent=2))
    assert measure(tmp_path, "", metrics_file=str(path)).metrics == {"a.b": 1.0}


@pytest.mark.parametrize(
    ("log", "says"), [("no metrics\n[1]\n3\n", "no JSON object"), ("", "no JSON object"), ('{"a": "b"}', "no number")]
)
def test_a_log_without_metrics_is_told(tmp_path: Path, log: str, says: str) -> None:
    with pytest.raises(LoadError, match=says):
        measure(tmp_path, log)


def test_a_missing_or_bad_metrics_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot read the metrics"):
        measure(tmp_path, '{"a": 1}', metrics_file=str(tmp_path / "none.json"))
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    with pytest.raises(LoadError, match="no JSON object"):
        measure(tmp_path, '{"a": 1}', metrics_file=str(bad))


def test_a_program_that_does_not_end_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="did not end within"):
        measure(tmp_path, "", lives=1000)


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "9" * 400])
def test_what_cannot_be_computed_with_is_left_out(odd: str) -> None:
    assert last_object(f'{{"score": 10, "x": {odd}}}')[0] == {"score": 10.0}


def test_deep_nesting_is_no_metric() -> None:
    with pytest.raises(NoMetrics):
        last_object('{"a":' + "[" * 100_000)
    with pytest.raises(NoMetrics):
        last_object("[" * 100_000)


def test_a_metrics_file_without_an_end_is_not_read(tmp_path: Path) -> None:
    target = Target(url="", alive=lambda: False, log=tmp_path / "log")
    with pytest.raises(LoadError, match="no regular file"):
        Program("/dev/zero").measure(
            target, Workload(), out=tmp_path / "out", progress=lambda _: None, mark=lambda: None
        )
