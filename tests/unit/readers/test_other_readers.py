"""Logs and tables in the forms that their programs' sources print; the samples are written after those sources."""

import gzip
import os
import sqlite3
from pathlib import Path

import pytest

from knowngood.errors import UsageError
from knowngood.model.profile import EngineStats, KernelTotals, NcclLog, NcclTest, Timeline, Topology
from knowngood.readers.engine_stats import read_stats
from knowngood.readers.knobs import catalogue
from knowngood.readers.nccl import read_log, read_tests
from knowngood.readers.nsight import read_csv, read_sqlite
from knowngood.readers.sniff import read_any
from knowngood.readers.topology import read_topology
from knowngood.reason.steptime.attribute import as_profile, attribute

DATA = Path(__file__).parents[2] / "data" / "steptime"
NCCL, TESTS, TOPO, SGLANG, VLLM, PAGE = (
    (DATA / name).read_text(encoding="utf-8")
    for name in ("nccl.log", "nccl-tests.txt", "topo.txt", "sglang.log", "vllm.log", "metrics.txt")
)


def test_nccl_log() -> None:
    log = read_log("x", NCCL.splitlines())
    assert (log.version, log.ranks, log.ready) == ("2.27.3", 8, True)
    assert log.transports == {"P2P/CUMEM": 2, "SHM/direct": 1}
    assert log.env == {"NCCL_P2P_LEVEL": "SYS"}
    assert log.graph_gb_s == 15
    assert [(one.size, one.algorithm, one.protocol, one.count) for one in log.enqueued] == [
        (14336, "RING", "SIMPLE", 1),
        (43008, "RING", "LL", 2),
    ]
    assert log.warnings == ("Error: failed to extend /dev/shm/nccl-x to 33030532 bytes",)


def test_nccl_tests() -> None:
    found = read_tests("x", TESTS.splitlines())
    assert found is not None
    assert (found.ranks, found.graphs) == (2, True)
    assert [(row.size, row.us, row.bus_gb_s, row.wrong) for row in found.rows] == [
        (14336, 48.21, 0.52, 0),
        (43008, 56.40, 1.33, 2),
    ]


def test_nccl_tests_with_further_columns() -> None:
    text = TESTS.replace("    time   algbw", "    time     min     max   algbw", 1).replace(
        "   48.21", "   48.21   40.00   90.00"
    )
    found = read_tests("x", text.splitlines())
    assert found is not None
    assert (found.rows[0].us, found.rows[0].bus_gb_s) == (48.21, 0.52)


def test_topology() -> None:
    found = read_topology("x", TOPO.splitlines())
    assert found == Topology(source="x", gpus=4, links={"SYS": 4, "PIX": 1, "PHB": 1}, worst="SYS", sockets=2)
    assert found is not None
    assert not found.nvlink
    joined = read_topology("x", TOPO.replace("PIX", "NV18").replace("PHB", "NV18").replace("SYS", "NV18").splitlines())
    assert joined is not None
    assert joined.nvlink


def test_topology_of_one_gpu() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-23\t0\t\tN/A\n"
    found = read_topology("x", text.splitlines())
    assert found is not None
    assert (found.gpus, found.links, found.worst) == (1, {}, "")


def test_sglang_log() -> None:
    assert read_stats("x", SGLANG.splitlines()) == EngineStats(
        source="x", engine="sglang", tokens_per_verify=2.0, tok_s=60.2, cuda_graph=False
    )


def test_vllm_log() -> None:
    found = read_stats("x", VLLM.splitlines())
    assert found is not None
    assert (found.engine, found.tokens_per_verify, found.acceptance) == ("vllm", 2.04, (0.645, 0.393))
    assert (found.drafts, found.tok_s) == (2, 98.1)


def test_metrics_page() -> None:
    found = read_stats("x", PAGE.splitlines())
    assert found is not None
    assert (found.engine, found.drafts) == ("vllm", 3)
    assert found.tokens_per_verify == pytest.approx(2.28)
    assert found.acceptance == (0.64, 0.40, 0.24)


def test_a_page_without_speculation_says_nothing() -> None:
    assert read_stats("x", ["vllm:num_requests_running 1"]) is None


def nsight(path: Path, *, graphs: bool = False) -> Path:
    with sqlite3.connect(path) as db:
        db.execute("create table StringIds (id integer, value text)")
        names = ["nvjet_tst_64x8", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "cudaGraphLaunch_v10000"]
        db.executemany("insert into StringIds values (?, ?)", enumerate(names, start=1))
        columns = "start integer, end integer, deviceId integer, streamId integer, correlationId integer"
        db.execute(f"create table CUPTI_ACTIVITY_KIND_KERNEL ({columns}, demangledName integer, shortName integer)")
        for step in range(3):
            for device in range(2):
                at = step * 1_000_000 + device * 10
                db.execute(
                    "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, ?, 7, ?, 1, 1)",
                    (at, at + 400_000, device, step),
                )
                db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, ?, 7, ?, 2, 2)",
                           (at + 400_000, at + 500_000 + 100_000 * device, device, step))  # fmt: skip
        db.execute("create table NVTX_EVENTS (start integer, end integer, text text, textId integer)")
        db.executemany("insert into NVTX_EVENTS values (?, ?, ?, null)",
                       [(n * 1_000_000, (n + 1) * 1_000_000, f"decode step {n}") for n in range(3)])  # fmt: skip
        db.execute("insert into NVTX_EVENTS values (5, null, 'a mark', null)")
        if graphs:
            db.execute(f"create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({columns}, graphId integer)")
            db.execute("insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (700000, 800000, 0, 7, 9, 1)")
    db.close()
    return path


def test_nsight_database(tmp_path: Path) -> None:
    found = attribute([read_sqlite(nsight(tmp_path / "x.sqlite"))])
    assert found is not None
    assert (found.ranks, found.steps, found.step_ms) == (2, 3, 1.0)
    assert {part.category: part.ms for part in found.parts} == pytest.approx({"gemm": 0.4, "comm.allreduce": 0.15})
    assert found.collectives[0].transport_us == pytest.approx(100)
    assert found.collectives[0].wait_us == pytest.approx(50)


def test_nsight_graphs_as_a_whole_are_said_to_be_opaque(tmp_path: Path) -> None:
    made = read_sqlite(nsight(tmp_path / "x.sqlite", graphs=True))
    assert any("--cuda-graph-trace=node" in note for note in made.notes)


def test_what_is_no_nsight_database(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    sqlite3.connect(path).close()
    with pytest.raises(UsageError, match="holds no kernel"):
        read_sqlite(path)
    path.write_bytes(b"SQLite format 3\x00" + b"x" * 200)
    with pytest.raises(UsageError, match="cannot be read as a database"):
        read_any(path)


def test_nsys_stats_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "Processing [x.sqlite] with [cuda_gpu_trace.py]...\n"
        "Start (ns),Duration (ns),CorrId,GrdX,Device,Ctx,Strm,Name\n"
        '1000,4000,1,8,"NVIDIA H100 (0)",1,7,nvjet_tst_64x8\n'
        '6000,2000,2,8,"NVIDIA H100 (0)",1,7,"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x, y)"\n'
        "broken\n"
    )
    (made,) = read_any(path)
    assert isinstance(made, Timeline)
    found = attribute([made])
    assert found is not None
    assert {part.category: part.ms for part in found.parts} == pytest.approx({"gemm": 0.004, "comm.allreduce": 0.002})
    assert found.idle_ms == pytest.approx(0.001)
    assert made.notes == ["t.csv: 1 rows are damaged; they are not counted"]


def test_nsys_stats_sums(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "80.0,24000000,122,196721,1,1,1,1,ncclDevKernel_AllReduce_Sum_bf16_RING_LL\n"
        "20.0,6000000,300,20000,1,1,1,1,nvjet_tst\n"
    )
    totals = read_csv(path)
    assert isinstance(totals, KernelTotals)
    assert [(part.category, part.ms, part.count) for part in totals.parts] == [
        ("comm.allreduce", 24, 122),
        ("gemm", 6, 300),
    ]
    assert as_profile(totals).step_ms == 30


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (NCCL, [NcclLog]),
        (TESTS, [NcclTest]),
        (TOPO, [Topology]),
        (SGLANG, [EngineStats]),
        (NCCL + SGLANG, [NcclLog, EngineStats]),
        (PAGE, [EngineStats]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_are_known_by_what_stands_in_them(tmp_path: Path, text: str, kinds: list[type], *, packed: bool) -> None:
    path = tmp_path / "anything"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert [type(one) for one in read_any(path)] == kinds


def test_what_nobody_knows_is_refused_unless_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_bytes(b"\xff\xfeA rose\n")
    with pytest.raises(UsageError, match="nothing that we can read"):
        read_any(path)
    assert read_any(path, strict=False) == ()
    with pytest.raises(UsageError, match="cannot be read"):
        read_any(tmp_path / "none")


def test_the_catalogue_is_whole() -> None:
    known = catalogue()
    assert len(known.knobs) == len({knob.id for knob in known.knobs}) > 100
    assert all(knob.effect and knob.source and knob.danger for knob in known.knobs)
    assert len(known.rules) == 16


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        read_any(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        read_any(Path("/dev/zero"))
