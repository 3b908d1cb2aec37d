"""Groups of changes, and experiments that are written: what is read back is what was written."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.config.experiment import load_experiment
from knowngood.config.writing import experiment_files, text
from knowngood.errors import UsageError
from knowngood.model.change import ChangeSet, Edit, Env, File, Flag, Patch, Pin, Setting
from knowngood.model.hypothesis import Hypothesis, Prediction
from knowngood.reason.findings import change_key

WHOLE = Hypothesis(
    name="idea",
    claim='it "helps"\n',
    because="a \\ b",
    changes=ChangeSet(
        members=(
            Edit(path="python:pkg/a.py", find="x\n\ty", replace="", count=3),
            Patch(name="idea.2.patch", root="/srv", diff=b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-\xff\n+2\n"),
            File(path="/srv/f", content=b"\0\1", source="idea.3.bin"),
            Env(name="A", value=""),
            Env(name="B"),
            Flag(flag="--f"),
            Flag(flag="--g", value="1", append=True),
            Flag(flag="--h", remove=True),
            Pin(requirement="numpy==2.3.1", deps=True),
            Setting(name="vm.swappiness", value="1"),
            Setting(name="clock", value="9", read=("get",), write=("set", "{value}")),
        ),
        groups=((0, 2, 5), (1, 3)),
    ),
    predicts=Prediction(metric="itl_p50_ms", low=-0.6, high=-0.005),
    requires=("gpu.sm >= 90",),
    after=("first",),
)


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    files = experiment_files(WHOLE, "idea")
    assert list(files)[-1] == "idea.toml"
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert load_experiment(tmp_path / "idea.toml") == WHOLE


def test_another_file_name_keeps_the_name(tmp_path: Path) -> None:
    for name, content in experiment_files(WHOLE, "other").items():
        (tmp_path / name).write_bytes(content)
    read = load_experiment(tmp_path / "other.toml")
    assert read.name == "idea"
    assert len(read.changes.members) == len(WHOLE.changes.members)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_toml_string(value: str) -> None:
    import tomllib

    assert tomllib.loads(f"a = {text(value)}") == {"a": value}


def write(folder: Path, *groups: object) -> Path:
    tables = [
        f'[[change]]\nenv = "V{at}"\nvalue = "1"\n' + ("" if group is None else f"group = {json.dumps(group)}\n")
        for at, group in enumerate(groups)
    ]
    path = folder / "e.toml"
    path.write_text('claim = "c"\n' + "".join(tables))
    return path


def test_changes_of_one_group_belong_together(tmp_path: Path) -> None:
    assert load_experiment(write(tmp_path, "a", None, "b", "a", "lone")).changes.groups == ((0, 3),)


@pytest.mark.parametrize("group", ["", 1])
def test_a_group_has_a_name(tmp_path: Path, group: object) -> None:
    with pytest.raises(UsageError, match=r"number 2: group is"):
        load_experiment(write(tmp_path, "a", group))


def test_a_misspelt_group_is_told(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('claim = "c"\n[[change]]\nenv = "A"\ngruop = "x"\n')
    with pytest.raises(UsageError) as caught:
        load_experiment(path)
    assert "'group'" in caught.value.hint


def test_a_group_is_no_part_of_what_a_change_is() -> None:
    plain = ChangeSet(members=WHOLE.changes.members)
    assert change_key(plain) == change_key(WHOLE.changes)
