"""Settings, pins and caches in the flow, over fakes."""

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import pytest

from knowngood.config.lab import LabConfig, load_lab
from knowngood.errors import Refused
from knowngood.flow.caches import CACHES, with_own_caches
from knowngood.flow.interpreter import Interpreter, find_interpreter
from knowngood.flow.settings import settled, tuned
from knowngood.flow.trial import with_pins
from knowngood.model.change import ChangeSet, Edit, Env, Pin, Setting
from knowngood.model.files import FileEdit
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Completed
from knowngood.testing.fakes import FakeHost

NEVER = Setting(name="thp", value="never")
NEW = FileEdit(path="/srv/new", before=None, after=b"new")


def machine() -> FakeHost:
    return FakeHost({}, {"thp": "madvise"})


def test_a_block_sets_and_puts_back() -> None:
    host = machine()
    with tuned(host.settings, "t", [NEVER]):
        assert host.values == {"thp": "never"}
    assert host.values == {"thp": "madvise"}


def test_a_block_that_fails_puts_back_too() -> None:
    host = machine()
    with pytest.raises(KeyboardInterrupt), tuned(host.settings, "t", [NEVER]):
        raise KeyboardInterrupt
    assert host.values == {"thp": "madvise"}


def test_a_keep_is_edits_and_settings_or_neither() -> None:
    host = machine()
    with settled(host, "t", [NEW], [NEVER]):
        pass
    assert (host.files, host.values) == ({"/srv/new": b"new"}, {"thp": "never"})
    assert [tx.state for tx in host.journal.transactions()] == ["kept"]
    assert [tx.state for tx in host.settings.transactions()] == ["kept"]

    host = machine()
    with pytest.raises(KeyboardInterrupt), settled(host, "t", [NEW], [NEVER]):
        raise KeyboardInterrupt
    assert (host.files, host.values) == ({}, {"thp": "madvise"})

    host = machine()
    with pytest.raises(Refused), settled(host, "t", [NEW], [Setting(name="nowhere", value="1")]):
        pytest.fail("nothing was set")
    assert host.files == {}


class ScriptHost(FakeHost):
    """A host whose PATH has programs that are scripts."""

    def __init__(self, files: dict[str, bytes], environ: bytes = b"") -> None:
        super().__init__(files)
        self.environ = environ
        self.ran: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Completed:
        self.ran.append(argv)
        if argv[0] == "env":
            return Completed(status=0, out=self.environ, err=b"")
        path = f"/bin/{argv[-1]}"
        return Completed(status=0, out=path.encode() if path in self.files else b"", err=b"")


def lab(tmp_path: Path, command: Sequence[str], python: str = "") -> LabConfig:
    text = f"[server]\nengine = 'openai'\ncommand = {json.dumps(list(command))}\npython = '{python}'\n"
    (tmp_path / "knowngood.toml").write_text(text)
    return load_lab(tmp_path)


@pytest.mark.parametrize(
    ("command", "python", "found", "deaf"),
    [
        (["/venv/bin/python", "-m", "sglang.launch_server"], "", "/venv/bin/python", ""),
        (["/venv/bin/python", "-I", "-m", "x"], "", "/venv/bin/python", "-I"),
        (["python3", "-uE", "s.py", "-I"], "", "python3", "-uE"),
        (["python3", "-mIdle"], "", "python3", ""),
        (["python3", "s.py", "-I"], "", "python3", ""),
        (["vllm", "serve"], "", "/venv/bin/python3", ""),
        (["isolated", "serve"], "", "/venv/bin/python3", "-sE"),
        (["enved", "serve"], "", "python3.12", ""),
        (["vllm", "serve"], "/my/python", "/my/python", ""),
        (["llama-server"], "", "python3", ""),
    ],
)
def test_the_interpreter_of_a_server(tmp_path: Path, command: list[str], python: str, found: str, deaf: str) -> None:
    files = {
        "/bin/vllm": b"#!/venv/bin/python3\nimport vllm\n",
        "/bin/isolated": b"#!/venv/bin/python3 -sE\n",
        "/bin/enved": b"#!/usr/bin/env python3.12\n",
        "/bin/llama-server": b"\x7fELF python",
    }
    interpreter = find_interpreter(ScriptHost(files), lab(tmp_path, command, python))
    assert (interpreter.path, interpreter.deaf) == (found, deaf)


def test_long_options_are_no_letters() -> None:
    assert Interpreter(path="python3", options=("--check-hash-based-pycs", "-Xfrozen_modules=off")).deaf == ""


EDIT = ChangeSet(members=(Edit(path="/a", find="x", replace="y"),))
SPEC = LaunchSpec(argv=("server",))


def caches(changes: ChangeSet, spec: LaunchSpec = SPEC, *, environ: bytes = b"", version: int = 1) -> LaunchSpec:
    return with_own_caches(ScriptHost({}, environ), spec, changes, folder=Path("/lab/caches"), version=version)


def test_changed_code_gets_caches_of_its_own() -> None:
    env = caches(EDIT).env
    assert env.keys() == CACHES.keys()
    assert all(value.startswith("/lab/caches/") for value in env.values())
    assert caches(EDIT).env == env
    assert caches(EDIT, version=2).env != env
    pinned = caches(ChangeSet(members=(Pin(requirement="a==1"),))).env
    assert pinned["TRITON_CACHE_DIR"] != env["TRITON_CACHE_DIR"]


def test_changed_values_share_the_known_good_caches() -> None:
    assert caches(ChangeSet(members=(Env(name="A", value="1"), NEVER))) == SPEC


def test_what_the_user_has_named_stays() -> None:
    spec = LaunchSpec(argv=("server",), env={"TRITON_CACHE_DIR": "/mine"}, unset=("CUDA_CACHE_PATH",))
    env = caches(EDIT, spec, environ=b"VLLM_CACHE_ROOT=/theirs\0HOME=/root\0").env
    assert env["TRITON_CACHE_DIR"] == "/mine"
    assert "VLLM_CACHE_ROOT" not in env
    assert "CUDA_CACHE_PATH" not in env
    assert env["TORCHINDUCTOR_CACHE_DIR"].startswith("/lab/caches/")


def test_caches_of_a_kept_change_are_not_those_of_the_next() -> None:
    kept = caches(EDIT)
    other = ChangeSet(members=(Edit(path="/b", find="x", replace="y"),))
    assert caches(other, kept, version=2).env["TRITON_CACHE_DIR"] != kept.env["TRITON_CACHE_DIR"]


def test_an_overlay_goes_first_on_the_path() -> None:
    pins = ChangeSet(members=(Pin(requirement="a==1"), Env(name="PYTHONPATH", value="/mine")))
    assert pins.on(SPEC, aliases={}, overlay="/o").env == {"PYTHONPATH": "/o:/mine"}
    bare = ChangeSet(members=(Pin(requirement="a==1"),))
    spec = LaunchSpec(argv=("server",), unset=("PYTHONPATH",))
    assert bare.on(spec, aliases={}, overlay="/o") == LaunchSpec(argv=("server",), env={"PYTHONPATH": "/o"})


def test_of_a_package_pinned_twice_the_later_counts() -> None:
    assert with_pins(("a==1", "b[x]==1"), [Pin(requirement="b==2")]) == ("a==1", "b==2")


@pytest.mark.parametrize("name", ["overlay", "listing"])
def test_scripts_for_the_host_need_an_old_python_and_nothing_else(name: str) -> None:
    text = resources.files("knowngood.flow.on_host").joinpath(f"{name}.py").read_text("utf-8")
    for node in ast.walk(ast.parse(text, feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            assert all(alias.name in sys.stdlib_module_names for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.module in sys.stdlib_module_names


def test_managed_directories_are_absolute_and_once(tmp_path: Path) -> None:
    (tmp_path / "knowngood.toml").write_text(
        "[host]\nmanaged = ['engine', './engine', '/srv']\n[server]\nengine = 'openai'\ncommand = ['x']\n"
    )
    assert load_lab(tmp_path).managed == (str(tmp_path.resolve() / "engine"), "/srv")
