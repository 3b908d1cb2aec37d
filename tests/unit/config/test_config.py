import re
from pathlib import Path

import pytest

from knowngood.config.experiment import load_experiment
from knowngood.config.lab import better_direction, find_lab, load_lab
from knowngood.config.values import ratio, seconds
from knowngood.errors import UsageError
from knowngood.model.change import Edit, Env, File, Flag, Patch
from knowngood.model.hypothesis import Sign

LAB = """
[server]
engine = "llamacpp"
command = ["llama-server", "-m", "m.gguf"]
port = 8080
"""


def lab(tmp_path: Path, text: str) -> Path:
    (tmp_path / "knowngood.toml").write_text(text)
    return tmp_path


def experiment(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "idea.toml"
    path.write_text(text)
    return path


def test_a_short_lab_file_has_sensible_defaults(tmp_path: Path) -> None:
    config = load_lab(lab(tmp_path, LAB))
    assert config.spec.argv == ("llama-server", "-m", "m.gguf")
    assert config.spec.cwd == str(tmp_path.resolve())
    assert config.workloads[0].concurrency == 1
    assert (config.worthwhile, config.direction, config.answers_mode) == (0.02, "higher", "equivalent")
    assert config.guards == {"error_rate": 0.0}


def test_every_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("hello\n")
    config = load_lab(
        lab(
            tmp_path,
            LAB
            + """
            [[workload]]
            name = "one"
            prompts = "p.txt"
            osl = 32
            isl = { mean = 100, sd = 20 }
            rate = 2.5
            slo = { ttft_ms = 200.0 }
            [[workload]]
            name = "many"
            concurrency = 64
            [objective]
            metric = "itl_p99_ms"
            worthwhile = "3%"
            [guards]
            ttft_p99_ms = "+5%"
            error_rate = 0.01
            answers = "off"
            """,
        )
    )
    one, many = config.workloads
    assert (one.prompts, one.isl.sd, one.osl.mean, one.rate) == (str(tmp_path / "p.txt"), 20.0, 32.0, 2.5)
    assert one.slo is not None
    assert one.slo.ttft_ms == 200.0
    assert many.concurrency == 64
    assert (config.direction, config.worthwhile) == ("lower", 0.03)
    assert config.guards == {"ttft_p99_ms": 0.05, "error_rate": 0.01}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAB + "[serverr]\n", "'serverr'.*'server'"),
        (LAB + "prot = 1\n", "'prot'.*'port'"),
        (LAB + "[[workload]]\nconcurency = 4\n", "'concurency'.*'concurrency'"),
        (LAB + "[[workload]]\nisl = { maen = 4 }\n", "'maen'.*'mean'"),
        (LAB + "[[workload]]\nrate = 1.0\nconcurrency = 1\n", "both concurrency and rate"),
        (LAB + '[workload]\nname = "x"\n', "list of tables"),
        (LAB + '[[workload]]\nname = "x"\n[[workload]]\nname = "x"\n', "one name"),
        (LAB + '[[workload]]\nprompts = "nowhere.txt"\n', "nowhere.txt"),
        (LAB + "[objective]\nworthwhile = 2\n", "worthwhile"),
        (LAB + '[guards]\nanswers = "maybe"\n', "same, equivalent, accuracy, off"),
        (LAB.replace("8080", '"8080"'), "port"),
        (LAB.replace("llamacpp", "x") + "[[[", "no valid TOML"),
        ("[host]\n", r"no \[server\]"),
        (LAB.replace('["llama-server", "-m", "m.gguf"]', "[]"), "command is empty"),
        (LAB + 'ready_timeout = "soon"\n', "ready_timeout"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_lab(lab(tmp_path, text))
    assert re.search(f"(?s){words}", f"{caught.value} {caught.value.hint}")


def test_a_missing_lab_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_lab(tmp_path)
    assert "knowngood init" in caught.value.hint


def test_a_lab_is_found_from_below(tmp_path: Path) -> None:
    lab(tmp_path, LAB)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_lab(deep) == tmp_path.resolve()


def test_an_experiment_with_every_kind_of_change(tmp_path: Path) -> None:
    (tmp_path / "f.patch").write_bytes(b"--- a\n")
    (tmp_path / "new.json").write_bytes(b"{}")
    hypothesis = load_experiment(
        experiment(
            tmp_path,
            """
            claim = "c"
            because = "b"
            predicts = { metric = "itl_p50_ms", change = ["-60%", "-30%"] }
            after = ["other"]
            [[change]]
            edit = "python:pkg/mod.py"
            find = "a"
            replace = "b"
            count = 2
            [[change]]
            patch = "f.patch"
            root = "/srv"
            [[change]]
            env = "A"
            value = 4
            [[change]]
            env = "B"
            [[change]]
            flag = "--x"
            value = 4
            [[change]]
            file = "conf.json"
            from = "new.json"
            """,
        )
    )
    edit, patch, env, unset, flag, file = hypothesis.changes.members
    assert edit == Edit(path="python:pkg/mod.py", find="a", replace="b", count=2)
    assert patch == Patch(name="f.patch", root="/srv", diff=b"--- a\n")
    assert (env, unset) == (Env(name="A", value="4"), Env(name="B"))
    assert flag == Flag(flag="--x", value="4")
    assert file == File(path=str(tmp_path / "conf.json"), content=b"{}", source="new.json")
    assert hypothesis.name == "idea"
    assert hypothesis.predicts is not None
    assert (hypothesis.predicts.low, hypothesis.predicts.high) == (-0.6, -0.3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no claim"),
        ('claim = "c"\n[[change]]\nflg = "-t"\n', "'flag'"),
        ('claim = "c"\n[[change]]\nflag = "-t"\nenv = "X"\n', "2 kind"),
        ('claim = "c"\n[[change]]\nflag = "-t"\nvalu = "X"\n', "'value'"),
        ('claim = "c"\n[[change]]\nedit = "/x"\nfind = "a"\n', "no replace"),
        ('claim = "c"\n[[change]]\nedit = "/x"\nfind = ""\nreplace = "b"\n', "find is empty"),
        ('claim = "c"\n[[change]]\npatch = "no.patch"\nroot = "/"\n', "no.patch"),
        ('claim = "c"\n[change]\nflag = "-t"\n', "double brackets"),
        ('claim = "c"\nclaims = "d"\n', "'claim'"),
        ('claim = "c"\npredicts = { metric = "x" }\n', "predicts"),
        ('claim = "c"\n[[change]]\nflag = "-t"\nremove = "yes"\n', "remove"),
    ],
)
def test_a_wrong_experiment_is_refused_with_a_hint(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_experiment(experiment(tmp_path, text))
    assert words in f"{caught.value} {caught.value.hint}"


def test_ratios_and_times_need_their_units() -> None:
    assert ratio("+5%", where="x") == 0.05
    assert ratio("-0.5 %", where="x") == -0.005
    assert seconds("90s", where="x") == 90
    assert seconds("1.5h", where="x") == 5400
    for bad in ("5", "five%", "", "%"):
        with pytest.raises(UsageError):
            ratio(bad, where="x")
        with pytest.raises(UsageError):
            seconds(bad, where="x")


def test_the_direction_follows_from_the_metrics_name() -> None:
    assert better_direction("ttft_p99_ms") == "lower"
    assert better_direction("error_rate") == "lower"
    assert better_direction("output_tok_s") == "higher"
    assert better_direction("request_s") == "higher"


def test_a_host_elsewhere_keeps_its_own_paths(tmp_path: Path) -> None:
    server = '[server]\nengine = "openai"\ncommand = ["x"]\n'
    (tmp_path / "knowngood.toml").write_text(server)
    here = load_lab(tmp_path)
    assert (here.host.is_local, here.spec.cwd) == (True, str(tmp_path.resolve()))
    (tmp_path / "knowngood.toml").write_text(f'[host]\naddress = "ssh://gpu1"\n[lease]\nttl = "30s"\n{server}')
    there = load_lab(tmp_path)
    assert (there.host.is_local, there.spec.cwd, there.lease.ttl) == (False, "", "30s")


def test_a_lease_needs_a_time_to_live(tmp_path: Path) -> None:
    text = '[lease]\nttl = "soon"\n[server]\nengine = "openai"\ncommand = ["x"]\n'
    (tmp_path / "knowngood.toml").write_text(text)
    with pytest.raises(UsageError, match="ttl"):
        load_lab(tmp_path)


def test_a_sign_is_a_line_or_a_metric(tmp_path: Path) -> None:
    def sign(text: str) -> Sign | None:
        return load_experiment(experiment(tmp_path, f'claim = "x"\nproves = {text}\n')).proves

    assert sign('{ log = "ready for rank \\\\d" }') == Sign(log=r"ready for rank \d")
    assert sign('{ metric = "app:drafts_total", above = 10 }') == Sign(metric="app:drafts_total", above=10.0)
    for wrong in ("{}", '{ log = "x", metric = "y" }', '{ log = "(" }', '{ kernel = "x" }'):
        with pytest.raises(UsageError, match="proves") as refused:
            sign(wrong)
        assert refused.value.hint
