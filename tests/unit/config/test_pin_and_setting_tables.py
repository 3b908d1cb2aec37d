"""``pin`` and ``setting`` in an experiment file."""

from pathlib import Path

import pytest

from knowngood.config.experiment import load_experiment
from knowngood.errors import UsageError
from knowngood.model.change import Change, Pin, Setting, describe


def members(tmp_path: Path, table: str) -> tuple[Change, ...]:
    path = tmp_path / "idea.toml"
    path.write_text(f'claim = "it helps"\n[[change]]\n{table}\n')
    return load_experiment(path).changes.members


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ('pin = "flashinfer-python == 0.6.17"', Pin(requirement="flashinfer-python==0.6.17")),
        ('pin = "vllm[audio]==0.11"\ndeps = true', Pin(requirement="vllm[audio]==0.11", deps=True)),
        ('setting = "vm.swappiness"\nvalue = 10', Setting(name="vm.swappiness", value="10")),
        (
            'setting = "clock"\nvalue = "1500"\nread = ["q"]\nwrite = ["s", "{value}"]',
            Setting(name="clock", value="1500", read=("q",), write=("s", "{value}")),
        ),
    ],
)
def test_it_is_read(tmp_path: Path, table: str, change: Change) -> None:
    assert members(tmp_path, table) == (change,)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('pin = "flashinfer-python>=0.6"', "exactly one version|pin is"),
        ('pin = "flashinfer-python==0.6.*"', "pin is"),
        ('pin = "a==1"\ndepz = true', "depz"),
        ('setting = "vm.swappiness"', "has no value"),
        ('setting = "clock"\nvalue = "1"\nread = ["q"]', "belong together"),
        ('setting = "clock"\nvalue = "1"\nread = ["q"]\nwrite = ["s"]', "names no {value}"),
        ('setting = 3\nvalue = "1"', "setting is 3"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, table: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        members(tmp_path, table)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("vm.swappiness", "/proc/sys/vm/swappiness"),
        ("net/ipv4/conf/eth0.1/rp_filter", "/proc/sys/net/ipv4/conf/eth0.1/rp_filter"),
        ("net.ipv4.conf.eth0/1.rp_filter", "/proc/sys/net/ipv4/conf/eth0.1/rp_filter"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ],
)
def test_names_of_the_kernel_become_paths(name: str, path: str) -> None:
    assert Setting(name=name, value="1").path == path
    assert Setting(name=name, value="1", read=("q",), write=("s",)).path == ""


def test_members_name_themselves() -> None:
    assert describe(Pin(requirement="a==1")) == "pin a==1"
    assert describe(Setting(name="vm.swappiness", value="1")) == "setting vm.swappiness=1"
    assert (Pin(requirement="a-b[c]==1.2").package, Pin(requirement="a-b[c]==1.2").version) == ("a-b", "1.2")
