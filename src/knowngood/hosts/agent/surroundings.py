"""What goes on around a server on this machine: counters to compare over a window, and the state of one instant.

What a machine does not have is left out of the answers. Source: proc(5), and of the kernel's documentation
``admin-guide/abi-testing`` (thermal_throttle, cpufreq, hwmon) and ``accounting/psi``.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .proc import PAGE, TICK_S, read_proc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .accelerators import Accelerators

SYS = "/sys"
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
SWAP_COUNTS = (b"pswpin", b"pswpout")
STEAL_FIELD = 8
PRESSURES = ("cpu", "memory", "io")
TOTAL_US = re.compile(rb"^some .*total=(\d+)", re.MULTILINE)
PACKAGES = re.compile(rb"/\S*/(?:site|dist)-packages(?=/)")
MHZ_PER_KHZ = 1e-3
CELSIUS_PER_MILLI = 1e-3


def counts() -> dict[str, float]:
    """Counters since boot, cheap enough for the edges of a measured window.

    Returns:
        ``swap_mb`` (MB swapped in and out), ``steal_s`` (CPU time that a hypervisor kept for others), ``cpu_throttles``
        (times that the CPU that throttled most was slowed for its temperature), ``oom_kills``, and of CPU, memory and
        I/O ``*_wait_s`` (time in which some process waited for it).
    """
    found: dict[str, float] = {}
    pages = dict(line.split(None, 1) for line in read_proc("vmstat").splitlines() if b" " in line)
    if all(name in pages for name in SWAP_COUNTS):
        found["swap_mb"] = sum(int(pages[name]) for name in SWAP_COUNTS) * PAGE / 1e6
    if b"oom_kill" in pages:
        found["oom_kills"] = float(pages[b"oom_kill"])
    times = read_proc("stat").split(None, STEAL_FIELD + 1)
    if len(times) > STEAL_FIELD:
        found["steal_s"] = int(times[STEAL_FIELD]) * TICK_S
    throttled = [sum(each.values()) for each in throttle_counts()]
    if throttled:
        found["cpu_throttles"] = max(throttled)
    for name in PRESSURES:
        waited = TOTAL_US.search(read_proc("pressure", name))
        if waited:
            found[name + "_wait_s"] = int(waited.group(1)) / 1e6
    return found


def throttle_counts() -> list[dict[str, float]]:
    """Of each CPU that counts them: how often it and its package were slowed for their temperature."""
    names = ("core_throttle_count", "package_throttle_count")
    found = [numbers(os.path.join(cpu, "thermal_throttle"), names) for cpu in cpus()]
    return [one for one in found if one]


def levels() -> dict[str, float]:
    """State of this instant: mean ``cpu_mhz``, lowest ``cpu_limit_mhz`` that is allowed, hottest ``cpu_celsius``."""
    clocks = [numbers(os.path.join(cpu, "cpufreq"), ("scaling_cur_freq", "scaling_max_freq")) for cpu in cpus()]
    now = [clock["scaling_cur_freq"] for clock in clocks if "scaling_cur_freq" in clock]
    most = [clock["scaling_max_freq"] for clock in clocks if "scaling_max_freq" in clock]
    found: dict[str, float] = {}
    if now:
        found["cpu_mhz"] = sum(now) / len(now) * MHZ_PER_KHZ
    if most:
        found["cpu_limit_mhz"] = min(most) * MHZ_PER_KHZ
    heat = temperatures()
    if heat:
        found["cpu_celsius"] = max(heat) * CELSIUS_PER_MILLI
    return found


def cpus() -> list[str]:
    """Directory of each CPU."""
    folder = os.path.join(SYS, "devices/system/cpu")
    return [os.path.join(folder, name) for name in listed(folder) if re.match(r"cpu\d+$", name)]


def temperatures() -> list[float]:
    """Temperatures of the CPUs, in thousandths of a degree Celsius."""
    found: list[float] = []
    folder = os.path.join(SYS, "class/hwmon")
    for name in listed(folder):
        sensor = os.path.join(folder, name)
        if text(os.path.join(sensor, "name")) in CPU_SENSORS:
            inputs = [one for one in listed(sensor) if re.match(r"temp\d+_input$", one)]
            found += numbers(sensor, inputs).values()
    return found


def look_around(accelerators: Accelerators, ours: Collection[int], known: Collection[int]) -> dict[str, Any]:
    """Say what goes on around a launch.

    Args:
        accelerators: Who is asked about them.
        ours: Processes of the launch.
        known: All processes that can be seen here; others, of another namespace, cannot be told from our own.

    Returns:
        ``levels`` of the machine and of its accelerators (``gpu_mhz``, ``gpu_limit_w``: the lowest; ``gpu_celsius``:
        the hottest; ``gpu_slow_s``: a counter), ``slowed`` and ``strangers`` (words, one a device and one a process),
        ``gpu_mb`` (memory of the launch, None if it cannot be told), ``accelerators`` (their number), ``driver``.
    """
    told = accelerators.read()
    devices, users = told["devices"], told["users"]
    own = [user["mb"] for user in users if user["pid"] in ours and user["mb"] is not None]
    return {
        "levels": dict(levels(), **device_levels(devices)),
        "slowed": [
            "accelerator {}: {}".format(at, ", ".join(device["slowdowns"]))
            for at, device in enumerate(devices)
            if device.get("slowdowns")
        ],
        "strangers": [
            "process {} ({}) on an accelerator".format(user["pid"], user["name"])
            for user in users
            if user["pid"] in known and user["pid"] not in ours
        ],
        "gpu_mb": sum(own) if own else None,
        "accelerators": len(devices),
        "driver": next((device["driver"] for device in devices if "driver" in device), ""),
    }


def device_levels(devices: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Clocks, limits and temperatures of all accelerators together."""
    found: dict[str, float] = {}
    wanted = (("gpu_mhz", "mhz", min), ("gpu_limit_w", "limit_w", min), ("gpu_celsius", "celsius", max))
    for name, source, pick in wanted:
        values = [device[source] for device in devices if source in device]
        if values:
            found[name] = pick(values)
    slow = [device["slow_us"] for device in devices if "slow_us" in device]
    if slow:
        found["gpu_slow_s"] = max(slow) / 1e6
    return found


def packages_of(pids: Iterable[int]) -> str:
    """Name the Python packages that lie where processes have loaded some from; empty for none.

    A digest over names and versions: it changes when one is installed, removed or upgraded.
    """
    folders: set[str] = set()
    for pid in pids:
        folders |= {os.fsdecode(one) for one in PACKAGES.findall(read_proc(pid, "maps"))}
    names = sorted({name for folder in folders for name in listed(folder) if name.endswith(".dist-info")})
    if not names:
        return ""
    digest = hashlib.sha256("\n".join(names).encode(errors="surrogateescape")).hexdigest()
    return f"{len(names)} distributions, {digest[:12]}"


def numbers(folder: str, names: Iterable[str]) -> dict[str, float]:
    """Files that hold one number each; what is not there, or holds something else, is left out."""
    found: dict[str, float] = {}
    for name in names:
        with suppress(ValueError):
            found[name] = float(text(os.path.join(folder, name)))
    return found


def text(path: str) -> str:
    """What a small file holds; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""


def listed(folder: str) -> list[str]:
    """Names in a directory, in order; none if it is not there."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
