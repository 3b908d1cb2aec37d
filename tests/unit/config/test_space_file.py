"""Space files and line-ups: what is read, and what each mistake is told."""

from pathlib import Path

import pytest

from knowngood.config.space import load_space, read_budget, read_line_up
from knowngood.errors import UsageError
from knowngood.model.race import Knob

SPACE = """
claim = "they belong together"
budget = 12

[[knob]]
flag = "--threads"
range = [1, 4]

[[knob]]
flag = "--parallel"
choices = [1, 2, 4]
when = { "--threads" = [2, 4] }

[[knob]]
setting = "vm.swappiness"
range = [0.0, 60.0]

[[forbid]]
"--threads" = [1, 2]
"--parallel" = 4
"""


def write(folder: Path, text: str, name: str = "space.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_space_is_read(tmp_path: Path) -> None:
    space = load_space(write(tmp_path, SPACE))
    assert (space.name, space.launches, space.minutes) == ("space", 12, 0.0)
    threads, parallel, swappiness = space.knobs
    assert threads == Knob(kind="flag", name="--threads", low=1, high=4, step=1)
    assert parallel == Knob(kind="flag", name="--parallel", choices=(1, 2, 4), when={"--threads": (2, 4)})
    assert swappiness == Knob(kind="setting", name="vm.swappiness", low=0.0, high=60.0)
    assert space.forbid == ({"--threads": (1, 2), "--parallel": (4,)},)


def test_a_budget_is_launches_or_time(tmp_path: Path) -> None:
    assert read_budget(24, where="x") == (24, 0.0)
    launches, minutes = read_budget("90m", where="x")
    assert (launches >= 100, minutes) == (True, 90.0)
    for wrong in (0, "many", "24"):
        with pytest.raises(UsageError, match="x is"):
            read_budget(wrong, where="x")


@pytest.mark.parametrize(
    ("knob", "words"),
    [
        ('flag = "-x"', "choices or a range"),
        ('flag = "-x"\nchoices = [1]\nrange = [1, 2]', "choices or a range"),
        ("choices = [1, 2]", "names no kind"),
        ('flag = "-x"\nchoices = [1, 2, 1]', "named twice"),
        ('flag = "-x"\nenv = "X"\nchoices = [1, 2]', "names 2 kind"),
        ('env = "X"\nchoices = [true, false]', "cannot be true or false"),
        ('flag = "-x"\nrange = [4, 1]', "holds no two values"),
        ('flag = "-x"\nrange = [1, 4]\nstep = 9', "holds no two values"),
        ('flag = "-x"\nrange = [1, 2, 3]', "range is"),
        ('flag = "-x"\nrange = [1, inf]', "is inf"),
        ('flag = "-x"\nrange = [0, 4]\nlog = true', "log goes with"),
        ('flag = "-x"\nchioces = [1]', "unknown key 'chioces'"),
        ('flag = "-x"\nchoices = [[1]]', "choices"),
        ('flag = "-x"\nchoices = [1]\nwhen = { "-y" = 1 }', "unknown key '-y'"),
        ('setting = "x"\nchoices = [1]\nread = ["get"]', "belong together"),
        ('setting = "x"\nchoices = [1]\nread = ["get"]\nwrite = ["set"]', "{value}"),
        ('flag = "-x"\nchoices = [1]\n[[knob]]\nflag = "-x"\nchoices = [2]', "two knobs"),
        ('flag = "-x"\nchoices = [1, 2]\n[[forbid]]\n"-x" = 3', "has no value 3"),
        ('flag = "-x"\nchoices = [1, 2]\n[[forbid]]\n"-z" = 1', "unknown key '-z'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, knob: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_space(write(tmp_path, f"[[knob]]\n{knob}\n"))
    assert words in caught.value.message
    assert caught.value.hint


def test_experiments_race_and_a_space_races_alone(tmp_path: Path) -> None:
    one = write(tmp_path, 'claim = "a"\n[[change]]\nflag = "-a"\n', "a.toml")
    other = write(tmp_path, 'claim = "b"\n[[change]]\nflag = "-b"\n', "b.toml")
    space = write(tmp_path, SPACE)
    assert [each.name for each in read_line_up([one, other]).candidates] == ["a", "b"]
    assert read_line_up([space]).space is not None
    with pytest.raises(UsageError, match="races alone"):
        read_line_up([one, space])
    with pytest.raises(UsageError, match="two candidates at least"):
        read_line_up([one])
    twin = write(tmp_path, 'name = "a"\nclaim = "c"\n[[change]]\nflag = "-c"\n', "c.toml")
    with pytest.raises(UsageError, match="two candidates are called a"):
        read_line_up([one, twin])
