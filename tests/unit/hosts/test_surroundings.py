"""What the agent reads of a machine, on files and outputs as kernels and vendors' tools write them."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from knowngood.hosts.agent import proc, surroundings
from knowngood.hosts.agent.accelerators import Accelerators, nvidia_devices, nvidia_users, rocm_state
from knowngood.hosts.agent.surroundings import counts, levels, look_around, packages_of

FIELDS = ("clocks.sm", "temperature.gpu", "enforced.power.limit", "driver_version", "clocks_event_reasons.active")
COUNTERS = (
    "clocks_event_reasons_counters.sw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown",
)
# Two devices on a driver that counts the time; the second is hot.
DEVICES = """\
1980, 61, 700.00, 575.57.08, 0x0000000000000004, 0, 0
1410, 87, 700.00, 575.57.08, 0x0000000000000068, 1250000, 3100000
"""
USERS = """\
41, 61440, /opt/venv/bin/python3
42, 512, /usr/bin/python3 -m torch, helper
9999, 100, /host/process
7, [N/A], /usr/lib/xorg/Xorg
"""
ROCM = {
    "card0": {
        "Temperature (Sensor edge) (C)": "32.0",
        "Temperature (Sensor junction) (C)": "35.0",
        "Temperature (Sensor memory) (C)": "43.0",
        "mclk clock speed:": "(1600Mhz)",
        "sclk clock speed:": "(1700Mhz)",
        "sclk clock level:": "1",
        "Max Graphics Package Power (W)": "560.0",
    },
    "system": {
        "Driver version": "6.14.14",
        "PID710898": "vllm, 1, 200145596416, 2735289460695, 88",
        "PID721888": "demo-worker, 0, 0, 0, 0",
    },
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /proc and /sys."""
    for name in ("proc", "sys"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(proc, "ROOT", str(tmp_path / "proc"))
    monkeypatch.setattr(surroundings, "SYS", str(tmp_path / "sys"))
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_machine_that_tells_nothing_has_nothing(machine: Path) -> None:
    assert counts() == {}
    assert levels() == {}
    assert packages_of([1, 2]) == ""


def test_counters_of_a_machine_that_tells_everything(machine: Path) -> None:
    put(machine / "proc/vmstat", "nr_free_pages 811787\npswpin 1000\npswpout 250\noom_kill 3\nswap_ra 7\n")
    put(machine / "proc/stat", "cpu  80019 0 2972 60974 268 0 278 2694 0 0\ncpu0 1 2 3\n")
    for name, total in (("cpu", 16409396), ("memory", 2_500_000), ("io", 1634404)):
        some = f"some avg10=5.89 avg60=5.52 avg300=2.50 total={total}\n"
        put(machine / f"proc/pressure/{name}", f"{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=1454617\n")
    for cpu, core in ((0, 4), (1, 6)):
        put(machine / f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count", f"{core}\n")
        put(machine / f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_count", "10\n")
    put(machine / "sys/devices/system/cpu/cpufreq/thermal_throttle/core_throttle_count", "99\n")
    assert counts() == {
        "swap_mb": 1250 * proc.PAGE / 1e6,
        "oom_kills": 3,
        "steal_s": pytest.approx(2694 * proc.TICK_S),
        # The package's count stands at each of its CPUs, so the CPUs are not added up.
        "cpu_throttles": 16,
        "cpu_wait_s": pytest.approx(16.409396),
        "memory_wait_s": pytest.approx(2.5),
        "io_wait_s": pytest.approx(1.634404),
    }


def test_clocks_limits_and_temperatures(machine: Path) -> None:
    for cpu, (now, most) in enumerate(((3_000_000, 3_500_000), (1_000_000, 2_400_000))):
        put(machine / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{now}\n")
        put(machine / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq", f"{most}\n")
    put(machine / "sys/class/hwmon/hwmon0/name", "nvme\n")
    put(machine / "sys/class/hwmon/hwmon0/temp1_input", "99000\n")
    put(machine / "sys/class/hwmon/hwmon1/name", "k10temp\n")
    put(machine / "sys/class/hwmon/hwmon1/temp1_input", "61500\n")
    put(machine / "sys/class/hwmon/hwmon1/temp3_input", "58000\n")
    put(machine / "sys/class/hwmon/hwmon1/temp1_crit", "105000\n")
    assert levels() == {"cpu_mhz": 2000, "cpu_limit_mhz": 2400, "cpu_celsius": 61.5}


def test_values_that_are_no_numbers_are_left_out(machine: Path) -> None:
    put(machine / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "<unknown>\n")
    put(machine / "proc/vmstat", "pswpin 4\n")
    assert levels() == {}
    assert counts() == {}


def test_the_packages_that_a_server_loads_from(machine: Path) -> None:
    venv = machine / "venv/lib/python3.11/site-packages"
    for name in ("torch-2.9.1.dist-info", "vllm-0.12.0.dist-info", "torch"):
        (venv / name).mkdir(parents=True)
    maps = f"7f00-7f01 r-xp 00000000 fe:00 1 {venv}/torch/lib/libc10.so\n7f02-7f03 r-xp 0 0 0 /usr/lib/libc.so.6\n"
    put(machine / "proc/41/maps", maps)
    put(machine / "proc/42/maps", "7f02-7f03 r-xp 00000000 fe:00 1 /usr/lib/libc.so.6\n")
    before = packages_of([41, 42])
    assert before.startswith("2 distributions, ")
    assert packages_of([42]) == ""
    (venv / "vllm-0.12.0.dist-info").rename(venv / "vllm-0.12.1.dist-info")
    assert packages_of([41]) not in ("", before)


def test_what_nvidia_smi_says_of_devices() -> None:
    cool, hot = nvidia_devices(DEVICES, (*FIELDS, *COUNTERS))
    assert cool == {
        "mhz": 1980,
        "celsius": 61,
        "limit_w": 700,
        "driver": "575.57.08",
        # A power cap is the normal state of a busy device.
        "slowdowns": [],
        "slow_us": 0,
    }
    assert hot["slowdowns"] == ["hardware slowdown", "software thermal slowdown", "hardware thermal slowdown"]
    assert hot["slow_us"] == 4_350_000


def test_what_a_device_does_not_tell_is_left_out() -> None:
    assert nvidia_devices("[N/A], 44, [Not Supported], 590.48, [N/A]\n", FIELDS) == [
        {"celsius": 44, "driver": "590.48"}
    ]
    assert nvidia_devices("No devices were found\n", FIELDS) == []


def test_what_nvidia_smi_says_of_processes() -> None:
    server, helper, host, desktop = nvidia_users(USERS)
    assert server == {"pid": 41, "name": "/opt/venv/bin/python3", "mb": pytest.approx(64424.5, abs=0.1)}
    assert (helper["pid"], helper["name"]) == (42, "/usr/bin/python3 -m torch, helper")
    assert (host["pid"], desktop["mb"]) == (9999, None)
    assert nvidia_users("\n") == []


def test_what_rocm_smi_says() -> None:
    devices, users = rocm_state(json.dumps(ROCM))
    assert devices == [{"mhz": 1700, "celsius": 35, "limit_w": 560, "driver": "6.14.14"}]
    assert users == [{"pid": 710898, "name": "vllm", "mb": pytest.approx(200145.6, abs=0.1)}]
    assert rocm_state("WARNING: no AMD GPU") == ([], [])


class Told(Accelerators):
    """Accelerators of a machine that has some."""

    def read(self) -> dict[str, object]:
        return {"devices": nvidia_devices(DEVICES, (*FIELDS, *COUNTERS)), "users": nvidia_users(USERS)}


def test_own_memory_and_strangers_are_told_apart(machine: Path) -> None:
    found = look_around(Told(), ours={41}, known={1, 7, 41, 42})
    assert found["gpu_mb"] == pytest.approx(64424.5, abs=0.1)
    # Process 9999 lives in another namespace: it may be our own by another name, so nothing is said of it.
    assert found["strangers"] == [
        "process 42 (/usr/bin/python3 -m torch, helper) on an accelerator",
        "process 7 (/usr/lib/xorg/Xorg) on an accelerator",
    ]
    assert found["slowed"] == ["accelerator 1: hardware slowdown, software thermal slowdown, hardware thermal slowdown"]
    assert found["levels"] == {"gpu_mhz": 1410, "gpu_limit_w": 700, "gpu_celsius": 87, "gpu_slow_s": 4.35}
    assert (found["accelerators"], found["driver"]) == (2, "575.57.08")
    assert look_around(Told(), ours=(), known=())["gpu_mb"] is None


def fake_tool(folder: Path, body: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nimport sys\nquery = sys.argv[1]\n{body}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def test_an_older_driver_is_asked_for_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(
        tmp_path,
        'print(query, file=open(sys.argv[0] + ".log", "a"))\n'
        'if "event_reasons" in query:\n'
        "    sys.exit('Field \"clocks_event_reasons.active\" is not a valid field to query.')\n"
        'print("41, 100, /bin/server" if "apps" in query else "1500, 60, 250.00, 470.82.01, 0x0000000000000040")',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    asked = Accelerators()
    first, again = asked.read(), asked.read()
    assert first == again
    assert first["devices"][0]["slowdowns"] == ["hardware thermal slowdown"]
    assert first["users"] == [{"pid": 41, "name": "/bin/server", "mb": pytest.approx(104.86, abs=0.01)}]
    lines = (tmp_path / "nvidia-smi.log").read_text().splitlines()
    # Three tries the first time, and what works from then on.
    assert len([line for line in lines if "--query-gpu" in line]) == 4


def test_a_tool_that_fails_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(tmp_path, 'sys.exit("NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver.")')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert Accelerators().read() == {"devices": [], "users": []}


def test_a_machine_without_tools_has_no_accelerators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("knowngood.hosts.agent.accelerators.ROCM_HOME", str(tmp_path))
    assert Accelerators().read() == {"devices": [], "users": []}
