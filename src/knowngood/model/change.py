"""What a hypothesis changes. A set is applied all together or not at all."""

from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec

from knowngood.model.launch import LaunchSpec, spellings, without_flag


class Edit(msgspec.Struct, frozen=True, kw_only=True, tag="edit"):
    """Replace a text in a file that stands on the host.

    Attributes:
        path: Absolute path on the host, or ``python:PKG/…`` (resolved with the server's own interpreter).
        find: Text that must occur exactly ``count`` times.
        replace: Text that takes its place.
        count: Number of occurrences, else the set is refused.
    """

    path: str
    find: str
    replace: str
    count: int = 1


class Patch(msgspec.Struct, frozen=True, kw_only=True, tag="patch"):
    """Apply a unified diff without fuzz.

    Attributes:
        name: File name of the diff, for messages.
        root: Directory on the host that the diff's paths are relative to.
        diff: The diff's bytes.
    """

    name: str
    root: str
    diff: bytes


class File(msgspec.Struct, frozen=True, kw_only=True, tag="file"):
    """Put a new file on the host, or replace one that stands there.

    Attributes:
        path: Absolute path on the host.
        content: The new bytes.
        source: Name of the file the bytes came from, for messages.
    """

    path: str
    content: bytes
    source: str = ""


class Env(msgspec.Struct, frozen=True, kw_only=True, tag="env"):
    """Set an environment variable for the launch; ``value`` None takes it away."""

    name: str
    value: str | None = None


class Flag(msgspec.Struct, frozen=True, kw_only=True, tag="flag"):
    """Set a flag of the launch.

    Attributes:
        flag: As written on the command line, dashes included.
        value: Its value; None for a bare flag.
        remove: Take the flag away instead.
        append: Add one more occurrence instead of replacing all.
    """

    flag: str
    value: str | None = None
    remove: bool = False
    append: bool = False


Change = Edit | Patch | File | Env | Flag
FileChange = Edit | Patch | File


def describe(change: Change) -> str:
    """Name a member in one line, as a person would."""
    match change:
        case Edit():
            return f"edit {change.path}"
        case Patch():
            return f"patch {change.name} in {change.root}"
        case File():
            return f"file {change.path}"
        case Env():
            return f"env {change.name}={change.value}" if change.value is not None else f"env -{change.name}"
        case Flag():
            if change.remove:
                return f"flag -{change.flag}"
            return f"flag {change.flag}" + ("" if change.value is None else f" {change.value}")
        case _:
            assert_never(change)


def set_flag(argv: Sequence[str], change: Flag, names: Sequence[str]) -> tuple[str, ...]:
    """Arguments with one flag set, added or taken away.

    Args:
        argv: Program and arguments.
        change: What to do.
        names: All spellings of the flag; every occurrence of any is replaced unless the change appends.

    Returns:
        The new arguments; the flag stands last.
    """
    rest = tuple(argv) if change.append else without_flag(argv, names)
    if change.remove:
        return rest
    return (*rest, change.flag) if change.value is None else (*rest, change.flag, change.value)


class ChangeSet(msgspec.Struct, frozen=True, kw_only=True):
    """Members that are applied all together or not at all."""

    members: tuple[Change, ...] = ()

    def edits(self) -> tuple[FileChange, ...]:
        """Return the members that alter files of the host: all that ever has to be undone."""
        return tuple(c for c in self.members if isinstance(c, Edit | Patch | File))

    def on(self, spec: LaunchSpec, *, aliases: Mapping[str, str]) -> LaunchSpec:
        """Launch values with this set in force.

        Args:
            spec: The baseline's launch.
            aliases: Spelling of a flag to its canonical spelling, as the engine declares them.

        Returns:
            A new launch; files are not its business.
        """
        argv: Sequence[str] = spec.argv
        env = dict(spec.env)
        unset = set(spec.unset)
        for change in self.members:
            match change:
                case Env():
                    env.pop(change.name, None)
                    unset.discard(change.name)
                    if change.value is None:
                        unset.add(change.name)
                    else:
                        env[change.name] = change.value
                case Flag():
                    argv = set_flag(argv, change, (*spellings(change.flag, aliases), change.flag))
                case Edit() | Patch() | File():
                    pass
                case _:
                    assert_never(change)
        return msgspec.structs.replace(spec, argv=tuple(argv), env=env, unset=tuple(sorted(unset)))
