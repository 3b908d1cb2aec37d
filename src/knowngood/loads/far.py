"""The load generator on another machine: sent over standard input, its samples come back with what it prints."""

import json
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final

from knowngood.loads.plan import Plan
from knowngood.reason.boot import TOO_OLD, boot_words

OLDEST: Final = (3, 10)
MODULES: Final = (
    "words", "plan", "arrivals", "aside", "http11", "wire", "discover", "sse", "window", "exchange", "pace", "priority",
    "recording", "generator", "visitor",
)  # fmt: skip
NO_PYTHON: Final = "there is no Python 3.10 or newer for the load"
BOOT: Final = (
    f"import sys,zlib,json;sys.version_info<({OLDEST[0]},{OLDEST[1]})and sys.exit({TOO_OLD});"
    "i=sys.stdin.buffer;d=json.loads(zlib.decompress(i.read(int(i.readline()))));exec(d[0])"
)
START: Final = """
import types
for name in ("knowngood", "knowngood.loads", *("knowngood.loads." + name for name, _ in d[1])):
    sys.modules[name] = types.ModuleType(name)
for name, text in d[1]:
    exec(compile(text, name + ".py", "exec"), sys.modules["knowngood.loads." + name].__dict__)
sys.modules["knowngood.loads.visitor"].main(d[2])
"""


def words(python: str = "") -> list[str]:
    """What is run there: a shell that looks for an interpreter and becomes the generator.

    Args:
        python: Interpreter to try first; empty for none.
    """
    minors = range(14, OLDEST[1] - 1, -1)
    names = (python, "python3", *(f"python3.{minor}" for minor in minors), "python")
    return boot_words(tuple(filter(None, names)), BOOT, missing=NO_PYTHON)


def parcel(plan: Plan) -> bytes:
    """What it reads first: its own text and the plan."""
    content = zlib.compress(json.dumps([START, sources(), plan.to_json()]).encode())
    return b"%d\n%s" % (len(content), content)


@cache
def sources() -> Sequence[tuple[str, str]]:
    """The generator's modules, lowest first: name to text."""
    folder = resources.files("knowngood.loads")
    return [(name, folder.joinpath(f"{name}.py").read_text("utf-8")) for name in MODULES]
