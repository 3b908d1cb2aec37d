import tomllib
from pathlib import Path

import pytest

from knowngood.config.experiment import load_experiment
from knowngood.config.lab import load_lab
from knowngood.demo.experiments import EXPERIMENTS
from knowngood.demo.lab import write_lab
from knowngood.demo.prompts import OTHER_PLACES, PLACES, prompts
from knowngood.demo.size import slowness
from knowngood.errors import HostError, UsageError
from knowngood.model.change import File, Flag

MODEL, DRAFT = Path('/models/a "b".gguf'), Path("/models/d.gguf")


def test_the_lab_and_its_experiments_can_be_read(tmp_path: Path) -> None:
    written = write_lab(tmp_path / "lab", model=MODEL, draft=DRAFT)
    lab = load_lab(tmp_path / "lab")
    assert str(MODEL) in lab.spec.argv
    assert lab.spec.argv[lab.spec.argv.index("--port") + 1] == str(lab.spec.port)
    assert lab.workloads[0].concurrency == 4
    assert [path.stem for path in written] == [each.name for each in EXPERIMENTS]
    known = {hypothesis.name for hypothesis in map(load_experiment, written)}
    for path in written:
        assert set(load_experiment(path).after) <= known


def test_quick_is_the_same_lab_with_shorter_answers(tmp_path: Path) -> None:
    write_lab(tmp_path / "a", model=MODEL, draft=DRAFT)
    write_lab(tmp_path / "b", model=MODEL, draft=DRAFT, quick=True)
    long, short = load_lab(tmp_path / "a"), load_lab(tmp_path / "b")
    assert (long.verdict.profile, short.verdict.profile) == ("standard", "quick")
    assert short.workloads[0].osl.mean < long.workloads[0].osl.mean


@pytest.mark.parametrize("quick", [False, True])
def test_a_slow_machine_gets_shorter_runs_of_the_same_lab(tmp_path: Path, *, quick: bool) -> None:
    write_lab(tmp_path / "a", model=MODEL, draft=DRAFT, quick=quick)
    write_lab(tmp_path / "b", model=MODEL, draft=DRAFT, quick=quick, slowness=9.0)
    usual, slow = load_lab(tmp_path / "a"), load_lab(tmp_path / "b")
    assert slow.workloads[0].osl.mean < usual.workloads[0].osl.mean
    assert 1.0 < slow.workloads[0].duration_s < usual.workloads[0].duration_s
    assert slow.answers.tokens < usual.answers.tokens
    assert slow.answers.count == usual.answers.count
    assert slowness() > 0


def test_every_ending_is_shown() -> None:
    assert {each.shows for each in EXPERIMENTS} == {"keep", "regression", "not_better", "dead_end", "void"}


def test_the_lookup_cache_goes_where_its_flag_looks_for_it(tmp_path: Path) -> None:
    write_lab(tmp_path, model=MODEL, draft=DRAFT)
    members = load_experiment(tmp_path / "experiments" / "lookup.toml").changes.members
    (file,) = (member for member in members if isinstance(member, File))
    (flag,) = (member for member in members if isinstance(member, Flag) and member.flag == "--lookup-cache-static")
    assert Path(file.path) == tmp_path / str(flag.value)
    assert file.content
    assert not Path(file.path).exists()


def test_a_lab_that_stands_there_is_left_alone(tmp_path: Path) -> None:
    write_lab(tmp_path, model=MODEL, draft=DRAFT)
    before = (tmp_path / "knowngood.toml").read_bytes()
    with pytest.raises(UsageError, match="holds a lab already"):
        write_lab(tmp_path, model=MODEL, draft=DRAFT)
    assert (tmp_path / "knowngood.toml").read_bytes() == before


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(HostError, match="cannot be written"):
        write_lab(tmp_path / "taken" / "lab", model=MODEL, draft=DRAFT)


def test_each_prompt_repeats_its_row() -> None:
    places = (*PLACES, *OTHER_PLACES)
    made = prompts(places)
    assert len(set(made)) == len(made) == 4 * len(places)
    assert {prompt.count(place) for prompt, place in zip(made, places * 4, strict=True)} == {4}


def test_experiments_are_valid_toml_with_a_claim_and_a_reason() -> None:
    for each in EXPERIMENTS:
        table = tomllib.loads(each.text.format(draft='"d"', cores=2, threads=8))
        assert table["claim"]
        assert table["because"]
