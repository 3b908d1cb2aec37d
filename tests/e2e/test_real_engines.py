"""vLLM and SGLang themselves, with a tiny random model. Installing one takes gigabytes, so these tests are asked for:

KNOWNGOOD_TEST_VLLM=/venv/bin/python, KNOWNGOOD_TEST_SGLANG=/venv/bin/python, and in KNOWNGOOD_TEST_SGLANG_PATH a
directory for its PYTHONPATH (on a machine without a GPU, one with a stand-in for ``sgl_kernel``). See
docs/how-to/engines.md.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

LAB = """\
[server]
engine = "{engine}"
command = {command}
port = {port}
env = {env}
ready_timeout = "10m"
stop_grace = "30s"

[[workload]]
concurrency = 2
duration_s = 4.0
isl = 32
osl = 16

[guards]
answers = "off"

[verdict]
profile = "explore"
baseline_pairs = 1
foreign_cores = 2.0
"""


def interpreter(name: str) -> str:
    python = os.environ.get(name, "")
    if not python:
        pytest.skip(f"NOT TESTED: set {name} to the interpreter of a virtual environment with the engine")
    return python


def prepare(lab: "RealLab", *, engine: str, command: list[str], env: dict[str, str]) -> dict[str, Any]:
    """Write the lab and measure its baseline; returns the facts known of it."""
    pairs = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in env.items())
    (lab.root / "knowngood.toml").write_text(
        LAB.format(engine=engine, command=json.dumps(command), port=lab.port, env=f"{{ {pairs} }}")
    )
    done = lab.run("baseline", "--json", timeout=900)
    assert done.status == 0, done
    facts: dict[str, Any] = done.json["baseline"]["facts"]
    return facts


def tried(lab: "RealLab", text: str) -> dict[str, Any]:
    done = lab.run("try", lab.experiment("idea", text), "--json", timeout=1200)
    (trial,) = done.json["trials"]
    status = lab.run("status", "--json")
    assert status.json["status"]["known_good"] is True, status
    found: dict[str, Any] = trial
    return found


def make_model(python: str, folder: Path) -> str:
    subprocess.run([python, str(Path(__file__).with_name("tiny_model.py")), str(folder)], check=True, timeout=300)
    return str(folder)


@pytest.fixture
def vllm(lab: "RealLab", tmp_path: Path) -> "RealLab":
    python = interpreter("KNOWNGOOD_TEST_VLLM")
    model = make_model(python, tmp_path / "model")
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--max-model-len", "1024"]
    command += ["--enforce-eager", "--host", "127.0.0.1", "--port", str(lab.port)]
    env = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CACHE_ROOT": str(tmp_path / "cache")}
    facts = prepare(lab, engine="vllm", command=command, env=env)
    assert facts["engine_version"]
    assert facts["model"] == "model"
    return lab


def test_vllm(vllm: "RealLab") -> None:
    changed = """
[[change]]
flag = "--block-size"
value = 32

[[change]]
flag = "--max-num-seqs"
value = 8

[[change]]
env = "VLLM_LOG_STATS_INTERVAL"
value = 5

[[change]]
edit = "python:vllm/v1/core/sched/scheduler.py"
find = "class Scheduler(SchedulerInterface):"
replace = "class Scheduler(SchedulerInterface):  # tried"
"""
    trial = tried(vllm, changed)
    assert trial["verdict"]["decision"] != "void", trial
    evidence = {proof["member"]: proof["evidence"] for proof in trial["proofs"]}
    assert [proof["holds"] for proof in trial["proofs"]] == [True] * 4, evidence
    assert "/metrics cache_config_info says block_size is 32" in evidence["flag --block-size 32"]
    assert "VLLM::EngineCore" in evidence["edit python:vllm/v1/core/sched/scheduler.py"]


def test_vllm_where_the_change_takes_no_effect(vllm: "RealLab") -> None:
    trial = tried(vllm, '[[change]]\nenv = "NCCL_PROTO"\nvalue = "LL"\n')
    assert trial["verdict"]["decision"] == "void"
    assert "NCCL never started" in trial["verdict"]["why"]
    trial = tried(vllm, '[[change]]\nenv = "VLLM_NO_SUCH_THING"\nvalue = "1"\n')
    assert trial["verdict"]["decision"] == "void"
    assert "Unknown vLLM environment variable" in trial["verdict"]["why"]


@pytest.fixture
def sglang(lab: "RealLab", tmp_path: Path) -> "RealLab":
    python = interpreter("KNOWNGOOD_TEST_SGLANG")
    model = make_model(python, tmp_path / "model")
    command = [python, "-m", "sglang.launch_server", "--model-path", model, "--device", "cpu"]
    command += ["--attention-backend", "torch_native", "--disable-overlap-schedule", "--enable-metrics"]
    command += ["--max-total-tokens", "8192", "--host", "127.0.0.1", "--port", str(lab.port)]
    env = {"HF_HUB_OFFLINE": "1", "SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.environ.get("KNOWNGOOD_TEST_SGLANG_PATH", "")
    facts = prepare(lab, engine="sglang", command=command, env=env)
    assert facts["engine_version"]
    assert facts["model"] == "model"
    return lab


def test_sglang(sglang: "RealLab") -> None:
    trial = tried(
        sglang,
        """
[[change]]
flag = "--max-running-requests"
value = 8

[[change]]
env = "SGLANG_LOG_MS"
value = 1

[[change]]
edit = "python:sglang/srt/managers/scheduler.py"
find = "import setproctitle\n"
replace = "import setproctitle  # tried\n"
""",
    )
    assert trial["verdict"]["decision"] != "void", trial
    evidence = {proof["member"]: proof["evidence"] for proof in trial["proofs"]}
    assert [proof["holds"] for proof in trial["proofs"]] == [True] * 3, evidence
    assert "/server_info says max_running_requests is 8" in evidence["flag --max-running-requests 8"]


def test_sglang_where_the_change_takes_no_effect(sglang: "RealLab") -> None:
    trial = tried(sglang, '[[change]]\nenv = "CUDA_DEVICE_MAX_CONNECTIONS"\nvalue = "1"\n')
    assert trial["verdict"]["decision"] == "void"
    assert "CUDA_DEVICE_MAX_CONNECTIONS=8 in the environment of process" in trial["verdict"]["why"]
    trial = tried(sglang, '[[change]]\nflag = "--enable-flashinfer-allreduce-fusion"\n')
    assert trial["verdict"]["decision"] == "void"
