"""Records the traces beside this file: two ranks of a tensor-parallel MLP on the CPU, over gloo.

``python record_trace.py FOLDER`` with torch 2.13 (CPU). Rank 1 computes more, so that rank 0 waits.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

LAYERS, HIDDEN, WIDTH, TOKENS, STEPS = 4, 256, 1024, 3, 4


def run(rank: int, folder: str) -> None:
    """One rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29511", rank=rank, world_size=2)
    up = [torch.randn(HIDDEN, WIDTH * (1 + 3 * rank)) for _ in range(LAYERS)]
    down = [torch.randn(WIDTH * (1 + 3 * rank), HIDDEN) for _ in range(LAYERS)]
    schedule = torch.profiler.schedule(wait=1, warmup=2, active=STEPS, repeat=1)
    out = str(Path(folder) / f"two-ranks-TP-{rank}.trace.json.gz")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=schedule,
        on_trace_ready=lambda made: made.export_chrome_trace(out),
    ) as profiler:
        for _ in range(3 + STEPS):
            hidden = torch.randn(TOKENS, HIDDEN)
            for first, second in zip(up, down, strict=True):
                part = torch.nn.functional.silu(hidden @ first) @ second
                dist.all_reduce(part)
                hidden = torch.nn.functional.layer_norm(hidden + part, (HIDDEN,))
            profiler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=2)
