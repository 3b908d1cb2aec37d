"""How often the demo keeps what it should: the same trial again and again, each keep taken back.

Run: ``python benchmarks/demo_keep.py --times 20`` (about 15 minutes on two cores). Goal: 19 of 20 for the clear keep,
none with ``--experiment nothing``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from knowngood.app.without_lab import make_demo_lab


def knowngood(folder: str, *args: str) -> Any:
    program = [sys.executable, "-m", "knowngood", *args, "--json"]
    env = {**os.environ, "KNOWNGOOD_STATE": f"{folder}/state"}
    done = subprocess.run(program, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--experiment", default="cores", help="Name of an experiment of the demo.")
    asked = parser.parse_args()
    times = asked.times
    counts: Counter[str] = Counter()
    launches = 0
    with tempfile.TemporaryDirectory(prefix="knowngood-keep-") as folder:
        make_demo_lab(Path(folder), quick=True)
        print("baseline:", knowngood(folder, "baseline").get("values"), flush=True)
        for number in range(times):
            tried = knowngood(folder, "try", f"experiments/{asked.experiment}.toml")
            verdict = tried["trials"][0]["verdict"]
            counts[verdict["decision"]] += 1
            launches += int(verdict["launches"])
            print(f"{number + 1}: {verdict['decision']} {verdict['estimate']} after {verdict['launches']}", flush=True)
            if verdict["decision"] == "keep":
                knowngood(folder, "undo")
    print(f"\nkept {counts['keep']} of {times}, {launches / times:.1f} launches a trial; all verdicts: {dict(counts)}")


if __name__ == "__main__":
    main()
