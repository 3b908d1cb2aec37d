"""The agent goes to hosts that have an older Python and nothing of ours."""

import ast
import sys
from importlib import resources

import pytest

from knowngood.hosts.bundle import JOURNAL, MODULES, scripts, source

OLDEST = (3, 8)
FOLDER = resources.files("knowngood.hosts.agent")
CHANGING = {
    "chmod", "chown", "fchmod", "fchown", "fsync", "link", "mkdir", "removexattr", "rename", "replace", "rmdir",
    "setxattr", "symlink", "truncate", "unlink", "utime", "write",
}  # fmt: skip


def tree(name: str) -> ast.Module:
    return ast.parse(FOLDER.joinpath(f"{name}.py").read_text("utf-8"), feature_version=OLDEST)


def test_every_module_of_the_agent_is_in_the_bundle() -> None:
    names = {entry.name.removesuffix(".py") for entry in FOLDER.iterdir() if entry.name.endswith(".py")}
    assert names == {*MODULES, "__init__"}


@pytest.mark.parametrize("name", MODULES)
def test_the_agent_needs_the_standard_library_only(name: str) -> None:
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            assert all(alias.name in sys.stdlib_module_names for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module in {*sys.stdlib_module_names, "collections.abc"}


@pytest.mark.parametrize("name", [name for name in JOURNAL if name != "files"])
def test_only_one_module_of_the_journal_changes_files(name: str) -> None:
    calls = [
        node.func.attr
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "os"
    ]
    assert CHANGING.isdisjoint(calls)


def test_no_name_is_defined_by_two_modules() -> None:
    """In the bundle they would be one name, and the last definition would hold for all."""
    seen: dict[str, str] = {}
    for name in MODULES:
        for defined in sorted(names_defined_by(name)):
            assert defined not in seen, (defined, name, seen[defined])
            seen[defined] = name


def names_defined_by(module: str) -> set[str]:
    found: set[str] = set()
    for node in tree(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        # One target may be a tuple of names.
        found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def test_the_bundle_is_python_of_the_oldest_version() -> None:
    ast.parse(source(), feature_version=OLDEST)
    assert "knowngood.hosts" not in source()
    assert set(scripts()) == {"recover.py", "recover.sh"}
