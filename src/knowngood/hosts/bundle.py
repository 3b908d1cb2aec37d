"""The agent as one file: left on a host as ``recover.py``, and sent to a host that has nothing of ours."""

import ast
from collections.abc import Mapping
from functools import cache
from importlib import resources

JOURNAL = ("files", "plan", "shelf", "undo", "journal")
MODULES = (
    *JOURNAL, "settings", "failures", "proc", "accelerators", "surroundings", "family", "runs", "servers", "lease",
    "watch", "service", "frames", "serve", "main",
)  # fmt: skip
HEADER = '''#!/usr/bin/env python3
"""Undo what knowngood changed on this host, without knowngood.

Usage: python3 recover.py [--state DIR] [recover | list | revert ID | keep ID]; without a word it recovers.
"""

from __future__ import annotations
'''
FOOTER = """

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], here()))
"""


@cache
def scripts() -> Mapping[str, bytes]:
    """Recovery scripts of a state directory: name to bytes."""
    shell = resources.files("knowngood.hosts.agent").joinpath("recover.sh").read_bytes()
    return {"recover.py": (source() + FOOTER).encode(), "recover.sh": shell}


@cache
def source() -> str:
    """The agent's modules joined into one, lowest first; importing it starts nothing."""
    folder = resources.files("knowngood.hosts.agent")
    parts = [without_own_imports(folder.joinpath(f"{name}.py").read_text("utf-8")) for name in MODULES]
    return HEADER + "".join(parts)


def without_own_imports(text: str) -> str:
    """Take a module's docstring and its imports of the package itself away."""
    lines = text.splitlines(keepends=True)
    drop: set[int] = set()
    for number, node in enumerate(ast.parse(text).body):
        own = isinstance(node, ast.ImportFrom) and (node.level > 0 or node.module == "__future__")
        docstring = number == 0 and isinstance(node, ast.Expr)
        if own or docstring:
            drop.update(range(node.lineno - 1, node.end_lineno or node.lineno))
    return "".join(line for number, line in enumerate(lines) if number not in drop)
