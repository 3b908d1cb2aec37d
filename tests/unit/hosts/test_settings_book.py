"""Settings on real values: files behind a pair of commands, and the kernel's own where root may write them."""

import os
from pathlib import Path

import pytest

from knowngood.errors import Refused, RevertFailed
from knowngood.hosts.agent.main import main
from knowngood.hosts.agent.service import knob_of
from knowngood.hosts.agent.settings import SettingsBook, squeeze
from knowngood.hosts.local import LocalHost
from knowngood.hosts.settings import AgentSettings, knob
from knowngood.model.change import Setting

SYSCTL = Path("/proc/sys/net/ipv4/tcp_fin_timeout")


def pair(path: Path, value: str) -> Setting:
    write = ("sh", "-c", 'printf %s "$1" > "$2.new" && mv "$2.new" "$2"', "sh", "{value}", str(path))
    return Setting(name=path.name, value=value, read=("cat", str(path)), write=write)


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    path = tmp_path / "clock"
    path.write_text("100")
    return path


@pytest.fixture
def settings(tmp_path: Path) -> AgentSettings:
    return LocalHost(tmp_path / "state").settings


@pytest.mark.parametrize(
    ("text", "value"),
    [("always [madvise] never\n", "madvise"), ("4096\t131072\t6291456\n", "4096 131072 6291456"), ("[N/A]", "[N/A]")],
)
def test_values_are_read_as_people_mean_them(text: str, value: str) -> None:
    assert squeeze(text) == value


def test_set_and_put_back(clock: Path, settings: AgentSettings) -> None:
    assert settings.apply("t", [pair(clock, "200")]).values == {"clock": "200"}
    assert [one.state for one in settings.transactions()] == ["applied"]
    assert settings.revert("t").state == "reverted"
    assert clock.read_text() == "100"
    assert settings.transactions() == []


def test_asked_again_it_answers(clock: Path, settings: AgentSettings) -> None:
    settings.apply("t", [pair(clock, "200")])
    assert settings.apply("t", [pair(clock, "200")]).state == "applied"
    settings.revert("t")
    assert clock.read_text() == "100"


def test_a_kept_set_stays_until_it_is_reverted(clock: Path, settings: AgentSettings) -> None:
    settings.apply("one", [pair(clock, "200")])
    settings.keep("one")
    assert settings.recover() == []
    settings.apply("two", [pair(clock, "300")])
    with pytest.raises(Refused, match="stand on one"):
        settings.revert("one")
    settings.revert("two")
    assert clock.read_text() == "200"
    settings.revert("one")
    assert clock.read_text() == "100"


def test_what_somebody_else_has_set_since_is_left_alone(clock: Path, settings: AgentSettings) -> None:
    settings.apply("t", [pair(clock, "200")])
    clock.write_text("250")
    with pytest.raises(RevertFailed, match="reads 250, neither 100 as before nor 200"):
        settings.revert("t")
    assert clock.read_text() == "250"
    assert [one.state for one in settings.recover()] == ["unfinished"]
    clock.write_text("100")
    assert [one.state for one in settings.recover()] == ["reverted"]


def test_all_or_none(tmp_path: Path, clock: Path, settings: AgentSettings) -> None:
    stubborn = Setting(name="stubborn", value="2", read=("echo", "1"), write=("true", "{value}"))
    with pytest.raises(Refused, match="stubborn was set to 2, but reads 1"):
        settings.apply("t", [pair(clock, "200"), stubborn])
    assert clock.read_text() == "100"
    assert settings.transactions() == []


def test_what_cannot_be_put_back_is_found_out_before_it_is_set(tmp_path: Path, settings: AgentSettings) -> None:
    log = tmp_path / "log"
    tool = f'echo "$1" >> {log}; [ "$1" != unlocked ]'
    locked = Setting(name="lock", value="1500", read=("echo", "unlocked"), write=("sh", "-c", tool, "sh", "{value}"))
    with pytest.raises(Refused, match="failed with status 1"):
        settings.apply("t", [locked])
    assert log.read_text() == "unlocked\n"
    assert settings.transactions() == []


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Setting(name="/proc/sys/no/such", value="1"), "cannot be read"),
        (Setting(name="/etc/hostname", value="1"), "nothing that the kernel holds"),
        (Setting(name="vm.no_such_thing", value="1"), "cannot be read"),
        (Setting(name="x", value="1", read=("no-such-program",), write=("true", "{value}")), "cannot be run"),
    ],
)
def test_what_cannot_be_read_is_refused(settings: AgentSettings, setting: Setting, words: str) -> None:
    with pytest.raises(Refused, match=words):
        settings.read([setting])


def test_a_value_that_nobody_may_write_is_refused(settings: AgentSettings) -> None:
    read_only = Setting(name="kernel.ostype", value="x")
    assert read_only.path == "/proc/sys/kernel/ostype"
    with pytest.raises(Refused):
        settings.read([read_only])


def test_after_a_reboot_nothing_is_written(tmp_path: Path, clock: Path) -> None:
    SettingsBook(str(tmp_path / "state"), boot="one").apply("t", [knob_of(knob(pair(clock, "200")))])
    (answer,) = SettingsBook(str(tmp_path / "state"), boot="two").recover()
    assert (answer.state, clock.read_text()) == ("reverted", "200")
    assert "nothing was written" in answer.notes[0]


def test_what_was_kept_is_set_again_after_a_reboot(tmp_path: Path, clock: Path) -> None:
    first = SettingsBook(str(tmp_path / "state"), boot="one")
    first.apply("t", [knob_of(knob(pair(clock, "200")))])
    first.keep("t")
    clock.write_text("90")
    second = SettingsBook(str(tmp_path / "state"), boot="two")
    assert [one.state for one in second.transactions()] == ["lapsed"]
    assert [one.state for one in second.recover()] == ["kept"]
    assert clock.read_text() == "200"
    second.revert("t")
    assert clock.read_text() == "90"


def test_the_script_on_the_host_puts_settings_back(
    tmp_path: Path, clock: Path, settings: AgentSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.apply("t", [pair(clock, "200")])
    assert main(["--state", str(tmp_path / "state"), "list"], "") == 0
    assert main(["--state", str(tmp_path / "state"), "revert", "t"], "") == 0
    assert clock.read_text() == "100"
    assert capsys.readouterr().out == "t applied\nt reverted\n"


@pytest.mark.root
@pytest.mark.skipif(not os.access(SYSCTL, os.W_OK), reason="only root may write /proc/sys")
def test_a_sysctl_of_the_real_kernel(settings: AgentSettings) -> None:
    before = SYSCTL.read_text()
    setting = Setting(name="net.ipv4.tcp_fin_timeout", value=str(int(before) + 1))
    try:
        assert settings.read([setting]) == {setting.name: before.strip()}
        settings.apply("t", [setting])
        assert int(SYSCTL.read_text()) == int(before) + 1
        settings.revert("t")
        assert SYSCTL.read_text() == before
        with pytest.raises(Refused, match="cannot be set to nonsense"):
            settings.apply("u", [Setting(name="net.ipv4.tcp_fin_timeout", value="nonsense")])
        assert SYSCTL.read_text() == before
    finally:
        SYSCTL.write_text(before)
