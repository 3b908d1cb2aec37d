"""Accelerators of this machine as their vendors' own tools tell of them: clocks, limits, and whose memory they hold.

Source: nvidia-smi(1), ``--help-query-gpu`` and ``--help-query-compute-apps``; ``rocm-smi --json``. A figure that a
device or a driver does not tell is left out.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIB = 1.048576
TOOL_S = 15.0
DRIVER_FIELD = "driver_version"
FIELDS = ("clocks.sm", "temperature.gpu", "enforced.power.limit", DRIVER_FIELD)
# What newer drivers call events, older ones call throttling; the newest count the time, too, in microseconds.
REASONS = (
    (
        "clocks_event_reasons.active",
        "clocks_event_reasons_counters.sw_thermal_slowdown",
        "clocks_event_reasons_counters.hw_thermal_slowdown",
    ),
    ("clocks_event_reasons.active",),
    ("clocks_throttle_reasons.active",),
    (),
)
# Bits of the reasons that a machine, and no setting, lowers a clock for (nvml.h). A power cap is the normal state of a
# busy device, so it is not among them.
SLOWDOWNS = {0x08: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "hardware thermal slowdown",
             0x80: "hardware power brake"}  # fmt: skip
ROCM = ("rocm-smi", "--showtemp", "--showclocks", "--showmaxpower", "--showdriverversion", "--showpids", "--json")
ROCM_HOME = "/opt/rocm/bin"
HOTTEST = ("junction", "edge", "")


class Accelerators:
    """What can be asked of the accelerators here."""

    def __init__(self) -> None:
        self._reasons = 0

    def read(self) -> dict[str, Any]:
        """Ask the vendors' tools; without one both lists are empty.

        Returns:
            ``devices``: of each ``mhz``, ``celsius``, ``limit_w``, ``driver``, ``slowdowns`` (words) and ``slow_us`` (a
            counter), as far as known. ``users``: of each process ``pid``, ``name`` and ``mb`` (None if not told).
        """
        devices: list[dict[str, Any]] = []
        users: list[dict[str, Any]] = []
        if shutil.which("nvidia-smi"):
            devices += self._nvidia_devices()
            users += nvidia_users(answer(nvidia("--query-compute-apps=pid,used_gpu_memory,process_name")) or "")
        rocm = shutil.which(ROCM[0]) or shutil.which(ROCM[0], path=ROCM_HOME)
        if rocm:
            more = rocm_state(answer((rocm, *ROCM[1:])) or "")
            devices += more[0]
            users += more[1]
        return {"devices": devices, "users": users}

    def _nvidia_devices(self) -> list[dict[str, Any]]:
        """Devices of NVIDIA, with the most telling fields that this driver knows."""
        while self._reasons < len(REASONS):
            fields = (*FIELDS, *REASONS[self._reasons])
            said = answer(nvidia("--query-gpu=" + ",".join(fields)))
            if said is not None:
                return nvidia_devices(said, fields)
            self._reasons += 1
        # Nothing was answered at all: the driver may come back.
        self._reasons = 0
        return []


def nvidia(query: str) -> tuple[str, ...]:
    """A query of nvidia-smi."""
    return ("nvidia-smi", query, "--format=csv,noheader,nounits")


def answer(words: Sequence[str]) -> str | None:
    """What a tool prints; None if it refuses, as it does where a driver does not know a field; nothing if it hangs."""
    try:
        done = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TOOL_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def nvidia_devices(said: str, fields: Sequence[str]) -> list[dict[str, Any]]:
    """Read a row a device."""
    found: list[dict[str, Any]] = []
    for row in rows(said, len(fields)):
        told = {name: row[at] for at, name in enumerate(fields)}
        device = {
            "mhz": number(told["clocks.sm"]),
            "celsius": number(told["temperature.gpu"]),
            "limit_w": number(told["enforced.power.limit"]),
            "driver": told[DRIVER_FIELD],
            "slowdowns": next((slowdowns(told[name]) for name in told if name.endswith("reasons.active")), None),
            "slow_us": total(number(told[name]) for name in told if "_counters." in name),
        }
        found.append({name: value for name, value in device.items() if value is not None})
    return found


def nvidia_users(said: str) -> list[dict[str, Any]]:
    """Read a row a process: its id, its memory in MiB, its program."""
    found: list[dict[str, Any]] = []
    for pid, memory, name in rows(said, 3):
        used = number(memory)
        if pid.isdigit():
            found.append({"pid": int(pid), "name": name, "mb": None if used is None else used * MIB})
    return found


def rocm_state(said: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read what rocm-smi says of devices (``card0``, …) and processes (``PID123`` in ``system``).

    A process is one text: name, number of devices, bytes of their memory, bytes of SDMA, occupancy.
    """
    try:
        told = json.loads(said)
    except ValueError:
        return [], []
    system = told.get("system", {})
    devices: list[dict[str, Any]] = []
    for name, card in sorted(told.items()):
        if name.startswith("card"):
            device = {
                "mhz": first_number(card, r"^sclk clock speed"),
                "celsius": next(
                    (
                        found
                        for place in HOTTEST
                        for found in [first_number(card, rf"^Temperature \(Sensor {place}")]
                        if found is not None
                    ),
                    None,
                ),
                "limit_w": first_number(card, r"^Max .*Power"),
                "driver": system.get("Driver version"),
            }
            devices.append({key: value for key, value in device.items() if value is not None})
    users: list[dict[str, Any]] = []
    for name, value in sorted(system.items()):
        parts = [part.strip() for part in str(value).split(",")]
        if name.startswith("PID") and name[3:].isdigit() and len(parts) >= 3:  # noqa: PLR2004 - up to the bytes
            used = number(parts[2])
            users.append({"pid": int(name[3:]), "name": parts[0], "mb": None if used is None else used / 1e6})
    # A process that holds no memory of a device has only opened the driver.
    return devices, [user for user in users if user["mb"]]


def rows(said: str, width: int) -> list[list[str]]:
    """Rows of comma-separated cells; the last cell may hold commas, and what is no such row is left out."""
    cells = [[cell.strip() for cell in line.split(",", width - 1)] for line in said.splitlines()]
    return [row for row in cells if len(row) == width]


def number(text: str) -> float | None:
    """The number that a text begins with or has in parentheses; None for ``[N/A]`` and the like."""
    found = re.match(r"\(?(-?\d+(?:\.\d+)?)", text)
    return float(found.group(1)) if found else None


def first_number(card: dict[str, Any], pattern: str) -> float | None:
    """The number under the first key that matches."""
    return next((number(str(value)) for key, value in card.items() if re.match(pattern, key)), None)


def total(values: Iterable[float | None]) -> float | None:
    """Sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def slowdowns(mask: str) -> list[str] | None:
    """Reasons out of a bit mask in hexadecimal, in words; None if the device does not tell."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return None
    return [words for bit, words in SLOWDOWNS.items() if bits & bit]
