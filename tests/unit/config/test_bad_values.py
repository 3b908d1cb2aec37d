"""Values that pass as TOML and mean nothing: refused when the file is read, so `--dry-run` refuses them, too."""

import os
from pathlib import Path

import pytest

from knowngood.config import values
from knowngood.config.experiment import load_experiment
from knowngood.config.lab import load_lab
from knowngood.config.measured import load_measured
from knowngood.config.space import load_space
from knowngood.config.values import LONGEST_S, ratio, read_file, seconds
from knowngood.errors import UsageError

SERVER = '[server]\nengine = "openai"\ncommand = ["x"]\n'
HUGE = "9" * 400


def write(tmp_path: Path, text: str, name: str = "knowngood.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "-1.0", "1e300", HUGE])
@pytest.mark.parametrize(
    ("table", "keys"),
    [
        (
            "[workload]",
            "concurrency rate duration_s requests warmup timeout_s isl osl isl.mean isl.sd isl.low osl.high",
        ),
        ("[workload]", "slo.ttft_ms slo.tpot_ms slo.e2e_ms"),
        ("server", "port"),
        ("answers", "count tokens"),
        ("verdict", "baseline_pairs self_test_every champion_every"),
    ],
)
def test_every_number_of_a_lab_file_has_a_range(tmp_path: Path, table: str, keys: str, number: str) -> None:
    for key in keys.split():
        head = "" if table == "server" else f"[{table}]\n"
        mean = f"{key[:3]}.mean = 1" if key in ("isl.sd", "isl.low", "osl.high") else ""
        write(tmp_path, f"{SERVER}{head}{mean}\n{key} = {number}\n")
        with pytest.raises(UsageError, match=f"{key}|{key.partition('.')[0]}"):
            load_lab(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "port = 70000",
        'address = "999.9.9.9"',
        'address = ""',
        'address = "a b"',
        'cwd = "a\\u0000"',
        'command = ["x\\u0000"]',
        'env = { "A=B" = "1" }',
        'env = { "" = "1" }',
        'env = { A = "\\u0000" }',
        'ready_timeout = "0s"',
        'stop_grace = "99999999999999999h"',
        '[host]\nmanaged = ["a\\nb"]',
        '[lease]\nttl = "99999999999999999h"',
        '[lease]\nttl = "0s"',
        '[objective]\nworthwhile = "-50%"',
        f'[objective]\nworthwhile = "{HUGE}%"',
        "[guards]\nttft_p99_ms = nan",
        "[guards]\nttft_p99_ms = -1.0",
        "[guards]\nmemory = inf",
        "[verdict]\nforeign_cores = nan",
        "[verdict]\nforeign_cores = -1",
        "[host_guard]\nswap_mb = nan",
        "[host_guard]\nswap_mb = -inf",
        "[[workload]]\nextra = { a = nan }",
        "[[workload]]\nextra = { a = inf }",
        f"[[workload]]\nextra = {{ a = {HUGE} }}",
        "[[workload]]\nosl = 0",
        "[[workload]]\nduration_s = 0",
        "[[workload]]\nisl = { mean = 9, low = 9, high = 3 }",
        "x = " + "[" * 5000 + "]" * 5000,
    ],
)
def test_a_lab_file_with_such_a_value_is_refused(tmp_path: Path, text: str) -> None:
    server = SERVER.replace('command = ["x"]\n', "") if text.startswith("command") else SERVER
    write(tmp_path, f"{server}{text}\n")
    with pytest.raises(UsageError) as caught:
        load_lab(tmp_path)
    assert caught.value.hint


def test_the_range_is_in_the_message(tmp_path: Path) -> None:
    write(tmp_path, SERVER + "port = 70000\n")
    with pytest.raises(UsageError, match=r"\[server\].*<= 65535.*port"):
        load_lab(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'predicts = { metric = "tok_s", change = ["-200%", "1%"] }',
        'predicts = { metric = "tok_s", change = ["20%", "10%"] }',
        f'predicts = {{ metric = "tok_s", change = ["1%", "{HUGE}%"] }}',
        'proves = { metric = "a", above = nan }',
        'proves = { log = "' + "(" * 5000 + '" }',
        'proves = { log = "a{99999999999999999999}" }',
        '[[change]]\nedit = "x\\u0000"\nfind = "a"\nreplace = "b"',
        '[[change]]\nedit = "x\\ny"\nfind = "a"\nreplace = "b"',
        '[[change]]\nedit = ""\nfind = "a"\nreplace = "b"',
        '[[change]]\nedit = "x"\nfind = "a"\nreplace = "b"\ncount = 0',
        '[[change]]\nfile = "x\\n"\nfrom = "y"',
        '[[change]]\nfile = "x"\nfrom = "y\\u0000"',
        '[[change]]\npatch = "p\\u0000"\nroot = "/"',
        '[[change]]\npatch = 3\nroot = "/"',
        '[[change]]\nflag = ""',
        '[[change]]\nflag = "-x\\u0000"',
        '[[change]]\nflag = "-x"\nvalue = "\\u0000"',
        '[[change]]\nenv = ""\nvalue = "1"',
        '[[change]]\nenv = "A=B"\nvalue = "1"',
        '[[change]]\nenv = "A"\nvalue = "\\u0000"',
    ],
)
def test_an_experiment_with_such_a_value_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_experiment(write(tmp_path, f'claim = "c"\n{text}\n', "idea.toml"))
    assert caught.value.hint


@pytest.mark.parametrize("name", ['flag = ""', 'env = "A=B"', 'env = ""', 'flag = "-x\\n"', 'setting = ""'])
def test_a_knob_needs_a_name_that_can_be_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        load_space(write(tmp_path, f'[[knob]]\n{name}\nchoices = ["1", "2"]\n', "space.toml"))


def test_a_loop_of_links_as_the_place_of_an_edit_is_left_to_the_host(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    text = 'claim = "c"\n[[change]]\nedit = "a"\nfind = "a"\nreplace = "b"\n'
    assert len(load_experiment(write(tmp_path, text, "idea.toml")).changes.members) == 1


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(UsageError, match="no regular file"):
            load_experiment(path)
        with pytest.raises(UsageError, match="no regular file"):
            load_measured(path)
        for kind in ('file = "x"\nfrom', 'root = "/"\npatch'):
            text = f'claim = "c"\n[[change]]\n{kind} = "{path}"\n'
            with pytest.raises(UsageError, match="no regular file"):
                load_experiment(write(tmp_path, text, "idea.toml"))


def test_a_file_larger_than_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "x" * 11)
    with pytest.raises(UsageError, match="more than"):
        read_file(path, hint="", most=10)
    assert read_file(path, hint="", most=11) == b"x" * 11
    monkeypatch.setattr(values, "LARGEST_TEXT", 10)
    with pytest.raises(UsageError, match="more than"):
        load_experiment(path)


def test_ratios_and_times_have_ends() -> None:
    assert ratio("-100%", where="x", least=-1.0) == -1.0
    assert seconds("8784h", where="x") == LONGEST_S
    with pytest.raises(UsageError, match="8785h"):
        seconds("8785h", where="x")


def test_a_mistyped_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "cores.toml").write_text('claim = "x"\n')
    with pytest.raises(UsageError, match="there is no file") as caught:
        load_experiment(tmp_path / "core.toml")
    assert caught.value.hint == f"did you mean {str(tmp_path / 'cores.toml')!r}?"
    with pytest.raises(UsageError, match="there is no file"):
        load_experiment(tmp_path / "nowhere" / "core.toml")
