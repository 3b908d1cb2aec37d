from pathlib import Path

from knowngood.loads.client import plan_pass
from knowngood.model.workload import Workload

URL = "http://127.0.0.1:1"


def asked(tmp_path: Path, workload: Workload, number: int, count: int) -> list[bytes]:
    plan = plan_pass(URL, workload, out=tmp_path / "s", number=number)
    return [plan.request(index, model="m").partition(b"\r\n\r\n")[2] for index in range(count)]


def test_later_passes_of_a_launch_ask_something_else(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("".join(f"prompt {number}\n" for number in range(30)))
    from_file = Workload(concurrency=1, prompts=str(tmp_path / "p.txt"))
    for workload in (Workload(concurrency=1), from_file):
        passes = [asked(tmp_path, workload, number, 10) for number in range(3)]
        assert len({body for bodies in passes for body in bodies}) == 30


def test_the_same_pass_asks_the_same_in_both_arms(tmp_path: Path) -> None:
    workload = Workload(concurrency=1)
    assert asked(tmp_path, workload, 1, 5) == asked(tmp_path, workload, 1, 5)
