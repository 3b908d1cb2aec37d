"""How long quick commands take, in multiples of ``python -c pass``: medians of whole processes, interleaved.

Run: ``python benchmarks/startup.py``. Goals: ``--help`` at most 6, ``status`` at most 12.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 21
LAB = '[server]\nengine = "openai"\ncommand = ["server"]\nport = 1\n'
GOALS = {"--help": 6, "status": 12}


def seconds(argv: list[str], folder: str) -> float:
    begun = time.perf_counter()
    env = {**os.environ, "KNOWNGOOD_STATE": f"{folder}/state"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    subprocess.run(argv, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> None:
    program = str(Path(sys.executable).with_name("knowngood"))
    commands = {"python -c pass": [sys.executable, "-c", "pass"], **{name: [program, name] for name in GOALS}}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "knowngood.toml").write_text(LAB)
        for argv in commands.values():
            seconds(argv, folder)  # bytecode is written once
        for _ in range(ROUNDS):
            for name, argv in commands.items():
                taken[name].append(seconds(argv, folder))
    base = statistics.median(taken["python -c pass"])
    print("| command | times `python -c pass` | goal |\n| --- | --- | --- |")
    for name, goal in GOALS.items():
        print(f"| `knowngood {name}` | {statistics.median(taken[name]) / base:.1f} | {goal} |")


if __name__ == "__main__":
    main()
