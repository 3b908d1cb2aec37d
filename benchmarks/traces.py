"""How long a large trace takes to read, and how much memory: ``python benchmarks/traces.py [--mb 500]``.

The trace is synthetic: Kineto's layout, kernels of a tensor-parallel decode on one device with their launches, host
operations and flow events, so that three of four events are passed over, as in a real one.
"""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KERNELS = (
    "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)",
    "fused_moe_kernel",
)


def write(path: Path, megabytes: int) -> int:
    """Write a trace of about that size, unpacked; returns the number of events."""
    ts, count, size = 0.0, 0, 0
    with gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w") as file:
        size += file.write('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [\n')
        while size < megabytes * 1e6:
            name = KERNELS[count // 4 % len(KERNELS)]
            args: dict[str, object] = {
                "External id": count,
                "device": 0,
                "context": 1,
                "stream": 7,
                "correlation": count,
            }
            args |= {
                "registers per thread": 168,
                "grid": [132, 1, 1],
                "block": [384, 1, 1],
                "est. achieved occupancy %": 19,
            }
            lane: dict[str, object] = {"pid": 0, "tid": 7, "ts": round(ts, 3)}
            host: dict[str, object] = {"pid": 99, "tid": 99, "ts": round(ts - 40, 3)}
            events = (
                {"ph": "X", "cat": "kernel", "name": name, **lane, "dur": 18.5, "args": args},
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **host, "dur": 4.2, "args": args},
                {"ph": "s", "id": count, "cat": "ac2g", "name": "ac2g", **host},
                {"ph": "f", "id": count, "cat": "ac2g", "name": "ac2g", **lane, "bp": "e"},
            )
            size += sum(file.write(json.dumps(event) + ",\n") for event in events)
            ts, count = ts + 20, count + len(events)
        file.write('{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}]}\n')
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=500, help="size of the trace, unpacked")
    megabytes = parser.parse_args().mb
    print("file        size MB   events   wall s   CPU s   peak RSS MB")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace.json", "trace.json.gz"):
            path = Path(folder) / name
            events = write(path, megabytes)
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(
                [sys.executable, "-m", "knowngood", "explain", str(path)], check=True, stdout=subprocess.DEVNULL
            )
            wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            size, peak = path.stat().st_size / 1e6, after.ru_maxrss / 1e3
            print(f"{name:<14}{size:>5.0f}{events:>9}{wall:>9.1f}{cpu:>8.1f}{peak:>14.0f}")
            path.unlink()


if __name__ == "__main__":
    main()
