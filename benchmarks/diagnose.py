"""How fast and how well logs are read, beside `wc`, `grep` and the readers that people write first.

Run: ``python benchmarks/diagnose.py``. Goals: 100 MB of an ordinary log in at most 2 s on one core, memory that does
not grow with the log. Speed is CPU time; each figure is the least of three interleaved runs.
"""

import json
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from knowngood.config.rules import shipped_rules
from knowngood.reason.diagnose import diagnose

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "tests" / "data" / "diagnosis"
SIZE = 100_000_000
ROUNDS = 3
ERRORS = "error|exception|traceback|fatal|failed"
READ = "import sys; from knowngood.app.without_lab import diagnose_log; print(diagnose_log(sys.argv[1]).rule)"
CAUSE = "RuntimeError: No supported CUDA architectures found for major versions [9, 10].\n"


def ordinary(chance: random.Random) -> Iterator[str]:
    """A server that serves: access log, statistics, a warning that comes again and again."""
    while True:
        number = chance.randrange(1 << 30)
        yield f'(APIServer pid=1) INFO:     127.0.0.1:{number % 60000} - "POST /v1/completions HTTP/1.1" 200 OK\n'
        yield f"[2026-01-01 12:{number % 60:02}:07 TP{number % 8}] Decode batch, #running-req: 1, #token: {number}\n"
        yield f"(EngineCore pid=2) INFO 01-01 12:00:{number % 60:02} [core.py:9] Added request {number:x}{number:x}\n"
        yield f"(EngineCore pid=2) WARNING 01-01 12:00:07 [a.py:9] request {number} failed once, error {number % 9}\n"


def different(chance: random.Random) -> Iterator[str]:
    """Prompts in the log: no line has the words of another."""
    words = [
        f"{a}{b}{c}" for a in ("ba", "ne", "to", "ri") for b in ("l", "mm", "st", "nd") for c in ("a", "er", "ing")
    ]
    while True:
        yield f"INFO 01-01 12:00:07 [logger.py:9] prompt: {' '.join(chance.choices(words, k=12))}\n"


def tracebacks(chance: random.Random) -> Iterator[str]:
    """A server that fails at every request."""
    while True:
        yield "ERROR 01-01 12:00:07 [core.py:9] Traceback (most recent call last):\n"
        for _ in range(6):
            yield f'ERROR 01-01 12:00:07 [core.py:9]   File "/py/x/m{chance.randrange(99)}.py", line 7, in f\n'
            yield "ERROR 01-01 12:00:07 [core.py:9]     return self.forward(hidden_states, positions, residual)\n"
        yield f"ERROR 01-01 12:00:07 [core.py:9] KeyError: 'request {chance.randrange(1 << 30)}'\n"


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "ordinary": ordinary,
    "no two lines alike": different,
    "nothing but tracebacks": tracebacks,
}


def write(path: Path, kind: str) -> None:
    """A log of a kind; its cause stands in the last line."""
    lines = KINDS[kind](random.Random(1))  # noqa: S311  (no secret)
    size = 0
    with path.open("w") as file:
        while size < SIZE:
            part = "".join(next(lines) for _ in range(2000))
            size += file.write(part)
        file.write(CAUSE)


def cpu_s(argv: list[str], path: Path) -> tuple[float, float]:
    """CPU seconds and peak MB of a program that reads the log."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # A pipe: into /dev/null grep stops at its first match.
    subprocess.run(
        [*argv, str(path)], stdout=subprocess.PIPE, check=True, env={"LC_ALL": "C", "PYTHONPATH": f"{ROOT}/src"}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


def speed() -> None:
    readers = {
        "`wc -l`": ["wc", "-l"],
        f"`grep -ciE '{ERRORS}'`".replace("|", "\\|"): ["grep", "-ciE", ERRORS],
        "knowngood": [sys.executable, "-c", READ],
    }
    print("| 100 MB | reader | CPU s | times grep |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        for kind in KINDS:
            write(path, kind)
            taken: dict[str, list[float]] = {name: [] for name in readers}
            for _ in range(ROUNDS):
                for name, argv in readers.items():
                    taken[name].append(cpu_s(argv, path)[0])
            least = {name: min(times) for name, times in taken.items()}
            grep = least[next(name for name in readers if "grep" in name)]
            for name, seconds in least.items():
                print(f"| {kind} | {name} | {seconds:.2f} | {seconds / grep:.1f} |")
    print(f"\nPeak memory of any of them: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB\n")


def last_line(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if line.strip()), "")


def last_error(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if re.search(ERRORS, line, re.IGNORECASE)), "")


def first_error(lines: list[str]) -> str:
    return next((line for line in lines if re.search(ERRORS, line, re.IGNORECASE)), "")


def last_exception(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if re.search(r"\w(Error|Exception): ", line)), "")


def first_exception(lines: list[str]) -> str:
    return next((line for line in lines if re.search(r"\w(Error|Exception): ", line)), "")


NAIVE: dict[str, Callable[[list[str]], str]] = {
    "last line": last_line,
    "last line that looks like an error": last_error,
    "first line that looks like an error": first_error,
    "last exception": last_exception,
    "first exception": first_exception,
}


def share(right: int, of: int) -> str:
    return f"{right} of {of}"


def accuracy() -> None:
    names = [path.name for path in sorted(LOGS.glob("*.jsonl"))]
    print(f"| reader: the decisive line is in what it shows | {' | '.join(names)} |\n| --- |{' --- |' * len(names)}")
    rows: dict[str, list[str]] = {
        name: [] for name in (*NAIVE, "knowngood: line", "knowngood: class", "knowngood: hard")
    }
    for name in names:
        cases = [json.loads(line) for line in (LOGS / name).read_text().splitlines()]
        for reader, read in NAIVE.items():
            right = sum(case["decisive_line"] in read(case["log"].splitlines()) for case in cases)
            rows[reader].append(share(right, len(cases)))
        found = [(case, diagnose([case["log"].encode()], shipped_rules())) for case in cases]
        lines = sum(any(case["decisive_line"] in text for text in (one.line, *one.window)) for case, one in found)
        rows["knowngood: line"].append(share(lines, len(cases)))
        classes = sum(case["root_cause_class"] == one.cause for case, one in found)
        rows["knowngood: class"].append(share(classes, len(cases)))
        rows["knowngood: hard"].append(
            share(sum(case["hard_constraint"] == one.hard for case, one in found), len(cases))
        )
    for reader, cells in rows.items():
        print(f"| {reader} | {' | '.join(cells)} |")


if __name__ == "__main__":
    speed()
    accuracy()
