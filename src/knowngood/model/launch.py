"""How a server is started. Flags and environment are values of a launch: nothing about them has to be undone."""

from collections.abc import Mapping, Sequence

import msgspec

LONE_DASH = "-"
NUMERIC_START = frozenset("0123456789.")


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One way to start a server.

    Attributes:
        argv: Program and arguments; never a shell string.
        env: Variables added to the host's environment.
        unset: Variables taken out of the host's environment.
        cwd: Working directory; empty means the host's default.
        address: Address the server listens on.
        port: TCP port the server listens on.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    cwd: str = ""
    address: str = "127.0.0.1"
    port: int = 0

    @property
    def url(self) -> str:
        """Root URL of the server, without a final slash."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"


def is_value(word: str) -> bool:
    """Tell whether an argv word is a flag's value: anything but another flag; negative numbers are values."""
    return not word.startswith("-") or word == LONE_DASH or (len(word) > 1 and word[1] in NUMERIC_START)


def without_flag(argv: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Take every occurrence of a flag away, with its value.

    Args:
        argv: Program and arguments.
        names: All spellings of the flag (``-t``, ``--threads``).

    Returns:
        The arguments that remain.
    """
    kept: list[str] = []
    after_flag = False
    for word in argv:
        taken = after_flag and is_value(word)
        after_flag = word in names
        if not taken and not after_flag and word.partition("=")[0] not in names:
            kept.append(word)
    return tuple(kept)


def flag_values(argv: Sequence[str], names: Sequence[str]) -> tuple[str | None, ...]:
    """Values of a flag in order of appearance; None for a bare occurrence.

    Args:
        argv: Program and arguments.
        names: All spellings of the flag.

    Returns:
        One entry an occurrence; empty if the flag is absent.
    """
    found: list[str | None] = []
    for at, word in enumerate(argv):
        name, eq, value = word.partition("=")
        if word in names:
            following = argv[at + 1] if at + 1 < len(argv) else None
            found.append(following if following is not None and is_value(following) else None)
        elif eq and name in names:
            found.append(value)
    return tuple(found)


def spellings(flag: str, aliases: Mapping[str, str]) -> tuple[str, ...]:
    """All spellings of a flag.

    Args:
        flag: One of them.
        aliases: Spelling to canonical spelling, as the engine declares them.

    Returns:
        The canonical spelling first.
    """
    canonical = aliases.get(flag, flag)
    return (canonical, *(name for name, target in aliases.items() if target == canonical and name != canonical))
