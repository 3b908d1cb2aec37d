import sys

import pytest

from knowngood.engines import llamacpp
from knowngood.engines.llamacpp import LlamaCpp
from knowngood.errors import UsageError
from knowngood.model.launch import LaunchSpec

SPEC = LaunchSpec(argv=("llama-server", "-m", "m.gguf"))


def has_package(name: str) -> object:
    return name


def has_no_package(name: str) -> None:
    del name


def only(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def test_a_llama_server_on_the_path_is_used_as_it_is() -> None:
    real = LlamaCpp().resolve(SPEC, which=only("llama-server", sys.executable).get)
    assert real.argv == ("llama-server", "-m", "m.gguf", "--metrics", "--slots")


def test_without_one_the_wheel_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp, "find_spec", has_package)
    real = LlamaCpp().resolve(SPEC, which=only(sys.executable).get)
    assert real.argv[:5] == (sys.executable, "-m", "knowngood.engines.llama_server", "-m", "m.gguf")


@pytest.mark.parametrize("program", ["llama-server", "my-server"])
def test_without_either_it_says_how_to_get_one(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp, "find_spec", has_no_package)
    with pytest.raises(UsageError, match=program) as refused:
        LlamaCpp().resolve(LaunchSpec(argv=(program,)), which=only(sys.executable).get)
    assert "pip install xllamacpp" in refused.value.hint


@pytest.mark.parametrize("flag", ["--slots", "--no-slots"])
def test_a_choice_about_slots_stands(flag: str) -> None:
    spec = LaunchSpec(argv=("llama-server", flag, "--metrics"))
    assert LlamaCpp().resolve(spec, which=only("llama-server").get) == spec
