"""Documentation rots unless a test fails: every command, key, error and house rule is held against the pages."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says() -> None:
    stale = [
        name
        for name, text in generator().pages().items()
        if (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run python docs/generate.py"


def test_every_key_has_a_meaning() -> None:
    rows = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8").splitlines()
    assert [row for row in rows if re.fullmatch(r"\| `\w+` \| .* \|  \|", row)] == []


def markdown() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split()]


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in markdown()
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


COMMAND = re.compile(r"^\s*(?:\$ )?knowngood ([a-z-]+)(.*)$", re.MULTILINE)


def shown_commands() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for page in markdown():
        for block in re.findall(r"```(?:sh|console|text)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            found += [(match[1], match[2]) for match in COMMAND.finditer(block)]
    return found


def test_commands_in_the_pages_exist_with_their_options() -> None:
    import click

    from knowngood.faces.cli import COMMANDS, cli

    shown = shown_commands()
    assert shown
    for name, rest in shown:
        assert name in COMMANDS, f"knowngood {name}"
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known = {flag for parameter in command.params for flag in parameter.opts} | {"--help"}
        for flag in re.findall(r"(?<!\S)(--[a-z-]+)", rest.partition(" -- ")[0]):
            assert flag in known, f"knowngood {name} {flag}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_house_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 500, "a module has at most 500 lines"
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= 60
    ]
    assert long == [], "a function has at most 60 lines"


def test_the_package_imports_quickly_because_it_imports_nothing() -> None:
    code = "import sys, knowngood; print([n for n in ('click', 'numpy', 'msgspec', 'rich') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["--help", "status"])
def test_quick_commands_load_nothing_heavy(command: str, tmp_path: Path) -> None:
    (tmp_path / "knowngood.toml").write_text('[server]\nengine = "openai"\ncommand = ["x"]\n')
    code = (
        "import sys; from knowngood.faces.cli import run; run(sys.argv[1:]);"
        "print([n for n in ('numpy', 'scipy', 'rich', 'http.client', 'asyncio') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_public_names_are_there() -> None:
    import knowngood

    assert knowngood.Judge(noise=[0.01, -0.01]).next_arm == "candidate"
    assert callable(knowngood.diagnose)
    assert knowngood.Lab.__name__ == "Lab"
    with pytest.raises(AttributeError):
        _ = knowngood.nothing


def test_the_examples_for_ones_own_benchmark_say_what_the_code_does() -> None:
    import doctest

    from knowngood.config.measured import read_measured

    page = ROOT / "docs" / "how-to" / "own-benchmark.md"
    text = page.read_text(encoding="utf-8")
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0
    tables = re.findall(r"```csv\n(.*?)```", text, re.DOTALL)
    assert [len(read_measured(table, name="csv").runs) for table in tables] == [4]
