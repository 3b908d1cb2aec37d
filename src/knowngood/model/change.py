"""What a hypothesis changes. A set is applied all together or not at all."""

from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec

from knowngood.model.amounts import Some
from knowngood.model.launch import LaunchSpec, spellings, without_flag

PYTHONPATH = "PYTHONPATH"


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
    count: Some = 1


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


class Pin(msgspec.Struct, frozen=True, kw_only=True, tag="pin"):
    """Let the server import one exact version of a package; the environment that stands is never written.

    Attributes:
        requirement: ``NAME==VERSION``.
        deps: Bring the packages that it requires, too.
    """

    requirement: str
    deps: bool = False

    @property
    def package(self) -> str:
        """Name of the distribution, without extras."""
        return self.requirement.partition("==")[0].partition("[")[0]

    @property
    def version(self) -> str:
        """The version asked for."""
        return self.requirement.partition("==")[2]


class Setting(msgspec.Struct, frozen=True, kw_only=True, tag="setting"):
    """Set a value that the host's kernel or a device holds.

    Attributes:
        name: Path below ``/proc/sys`` or ``/sys``, a sysctl name, or any name if there are commands.
        value: The value to set.
        read: Command that prints the value; empty for a path or sysctl.
        write: Command that sets it; ``{value}`` in its words stands for the value.
    """

    name: str
    value: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """File that holds the value; empty for a pair of commands. Source of the dots: sysctl(8)."""
        if self.read or self.name.startswith("/"):
            return "" if self.read else self.name
        first = next((letter for letter in self.name if letter in "./"), ".")
        swapped = self.name if first == "/" else self.name.translate(str.maketrans("./", "/."))
        return f"/proc/sys/{swapped}"


Change = Edit | Patch | File | Env | Flag | Pin | Setting
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
        case Pin():
            return f"pin {change.requirement}"
        case Setting():
            return f"setting {change.name}={change.value}"
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
    """Members that are applied all together or not at all.

    Attributes:
        members: The changes, in the order they build on each other.
        groups: Indices of members that are of no use without each other: `isolate` never parts them.
    """

    members: tuple[Change, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()

    def edits(self) -> tuple[FileChange, ...]:
        """Return the members that alter files of the host: with the settings, all that ever has to be undone."""
        return tuple(c for c in self.members if isinstance(c, Edit | Patch | File))

    def settings(self) -> tuple[Setting, ...]:
        """Return the members that alter values of the host."""
        return tuple(c for c in self.members if isinstance(c, Setting))

    def pins(self) -> tuple[Pin, ...]:
        """Return the members that name another environment."""
        return tuple(c for c in self.members if isinstance(c, Pin))

    def on(self, spec: LaunchSpec, *, aliases: Mapping[str, str], overlay: str = "") -> LaunchSpec:
        """Launch values with this set in force.

        Args:
            spec: The baseline's launch.
            aliases: Spelling of a flag to its canonical spelling, as the engine declares them.
            overlay: Directory that the pins were built into; empty without pins.

        Returns:
            A new launch; files and settings are not its business.
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
                case Edit() | Patch() | File() | Setting() | Pin():
                    pass
                case _:
                    assert_never(change)
        if overlay:
            unset.discard(PYTHONPATH)
            env[PYTHONPATH] = ":".join(filter(None, (overlay, env.get(PYTHONPATH, ""))))
        return msgspec.structs.replace(spec, argv=tuple(argv), env=env, unset=tuple(sorted(unset)))
