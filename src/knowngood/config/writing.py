"""A hypothesis becomes an experiment file again."""

import json
from typing import assert_never

from knowngood.model.change import Change, Edit, Env, File, Flag, Patch, Pin, Setting
from knowngood.model.hypothesis import Hypothesis

PERCENT_DIGITS = 6


def experiment_files(hypothesis: Hypothesis, stem: str) -> dict[str, bytes]:
    """Write a hypothesis down.

    Args:
        hypothesis: With paths as they are on the host.
        stem: Name of the file without ``.toml``; diffs and new files are named after it.

    Returns:
        File name to bytes; the experiment file comes last. Read back, it is the same hypothesis.
    """
    files: dict[str, bytes] = {}
    lines = [f"claim = {text(hypothesis.claim)}"]
    if hypothesis.name != stem:
        lines.insert(0, f"name = {text(hypothesis.name)}")
    lines += [f"because = {text(hypothesis.because)}"] if hypothesis.because else []
    if hypothesis.predicts is not None:
        ends = ", ".join(text(percent(end)) for end in (hypothesis.predicts.low, hypothesis.predicts.high))
        lines.append(f"predicts = {{ metric = {text(hypothesis.predicts.metric)}, change = [{ends}] }}")
    lines += [f"requires = {texts(hypothesis.requires)}"] if hypothesis.requires else []
    lines += [f"after = {texts(hypothesis.after)}"] if hypothesis.after else []
    for number, member in enumerate(hypothesis.changes.members):
        place, content = beside(member, f"{stem}.{number + 1}")
        if place:
            files[place] = content
        group = next((at for at, members in enumerate(hypothesis.changes.groups, 1) if number in members), 0)
        lines += ["", "[[change]]", *change_lines(member, place), *([f'group = "{group}"'] if group else [])]
    files[f"{stem}.toml"] = "\n".join([*lines, ""]).encode()
    return files


def beside(member: Change, stem: str) -> tuple[str, bytes]:
    """Name and bytes of the file that a member is read from; two empty ones if it needs none."""
    if isinstance(member, Patch):
        return f"{stem}.patch", member.diff
    if isinstance(member, File):
        return f"{stem}.bin", member.content
    return "", b""


def change_lines(member: Change, place: str) -> list[str]:
    """The keys of one ``[[change]]``."""
    match member:
        case Edit():
            lines = [f"edit = {text(member.path)}", f"find = {text(member.find)}", f"replace = {text(member.replace)}"]
            return [*lines, f"count = {member.count}"] if member.count != 1 else lines
        case Patch():
            return [f"patch = {text(place)}", f"root = {text(member.root)}"]
        case File():
            return [f"file = {text(member.path)}", f"from = {text(place)}"]
        case Env():
            return [f"env = {text(member.name)}", *value_line(member.value)]
        case Flag():
            marks = [f"{name} = true" for name in ("remove", "append") if getattr(member, name)]
            return [f"flag = {text(member.flag)}", *value_line(member.value), *marks]
        case Pin():
            return [f"pin = {text(member.requirement)}", *(["deps = true"] if member.deps else [])]
        case Setting():
            lines = [f"setting = {text(member.name)}", f"value = {text(member.value)}"]
            commands = [f"read = {texts(member.read)}", f"write = {texts(member.write)}"] if member.read else []
            return [*lines, *commands]
        case _:
            assert_never(member)


def value_line(value: str | None) -> list[str]:
    """A ``value`` line; none if there is no value."""
    return [] if value is None else [f"value = {text(value)}"]


def percent(share: float) -> str:
    """A ratio minus one as experiment files say it."""
    return f"{round(100 * share, PERCENT_DIGITS):+g}%"


def text(value: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for one character that JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def texts(values: tuple[str, ...]) -> str:
    """A TOML list of strings."""
    return f"[{', '.join(map(text, values))}]"
