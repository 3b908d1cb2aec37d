"""``[guards]``, ``[accuracy]`` and ``[host_guard]``."""

import math
import re
from pathlib import Path

import pytest

from knowngood.config.lab import LabConfig, load_lab
from knowngood.errors import UsageError

SERVER = '[server]\nengine = "{engine}"\ncommand = ["server"]\nport = 8080\n'
ACCURACY = '[accuracy]\ncommand = ["exam", "{url}"]\n'


def read(tmp_path: Path, text: str, *, engine: str = "openai") -> LabConfig:
    (tmp_path / "knowngood.toml").write_text(SERVER.format(engine=engine) + text)
    return load_lab(tmp_path)


def test_memory_is_guarded_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    assert read(tmp_path, "").memory == 0.02
    assert read(tmp_path, '[guards]\nmemory = "+10%"\n').memory == pytest.approx(0.1)
    wide = read(tmp_path, '[guards]\nmemory = "off"\n')
    assert wide.memory is None
    assert wide.guards == {"error_rate": 0.0}


def test_the_accuracy_command_and_its_margin(tmp_path: Path) -> None:
    config = read(tmp_path, ACCURACY + 'margin = "0.5%"\n[guards]\nanswers = "accuracy"\n')
    assert config.accuracy is not None
    assert config.accuracy.command == ("exam", "{url}")
    assert (config.answers_mode, config.accuracy_margin) == ("accuracy", 0.005)
    assert read(tmp_path, "").accuracy_margin == 0.0


def test_limits_of_host_conditions(tmp_path: Path) -> None:
    config = read(tmp_path, "[host_guard]\nswap_mb = inf\ncpu_throttles = 5\n[verdict]\nforeign_cores = 0.5\n")
    assert config.host_limits["swap_mb"] == math.inf
    assert config.host_limits["cpu_throttles"] == 5
    assert config.host_limits["foreign_cores"] == 0.5
    assert config.host_limits["foreign_processes"] == 0


GOODPUT = '[objective]\nmetric = "goodput_s"\n'
GUARDED = '[guards]\ngoodput_s = "5%"\n'


@pytest.mark.parametrize("wanted", [GOODPUT, GUARDED])
def test_goodput_needs_limits_that_a_request_can_keep(tmp_path: Path, wanted: str) -> None:
    for workload in ("", "[[workload]]\nconcurrency = 1\n", "[[workload]]\nconcurrency = 1\nslo = {}\n"):
        with pytest.raises(UsageError, match=r"goodput_s.*says of no request whether it is good") as caught:
            read(tmp_path, wanted + workload)
        assert "slo = {" in caught.value.hint
    limits = "[[workload]]\nconcurrency = 1\nslo = { ttft_ms = 500.0 }\n"
    assert read(tmp_path, wanted + limits).workloads[0].slo is not None
    # A program of the user's own says itself what its goodput is.
    assert read(tmp_path, wanted, engine="command")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[guards]\ngoodput = "5%"\n', "goodput_s"),
        ('[guards]\nanswers = "accuracy"\n', "needs a command.*\\[accuracy\\]"),
        ("[accuracy]\ncommand = []\n", "command is empty"),
        (ACCURACY + 'margin = "0%"\n', "margin is 0"),
        (ACCURACY + "margin = 1\n", "margin"),
        (ACCURACY + 'timeout = "soon"\n', "timeout"),
        (ACCURACY + 'comand = "x"\n', "'comand'.*'command'"),
        ("[host_guard]\nswap = 1\n", "'swap'.*'swap_mb'"),
        ('[host_guard]\nswap_mb = "much"\n', "swap_mb"),
        ('[guards]\nmemory = "much"\n', "memory"),
        ("[hostguard]\n", "'hostguard'.*'host_guard'"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert re.search(f"(?s){words}", f"{caught.value} {caught.value.hint}")
