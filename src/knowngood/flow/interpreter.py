"""The Python that a server runs with: where it is, and whether it minds ``PYTHONPATH``."""

from collections.abc import Sequence
from dataclasses import dataclass

from knowngood.config.lab import LabConfig
from knowngood.errors import HostError
from knowngood.ports import Host

SHEBANG = b"#!"
LONGEST_LINE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A server's interpreter.

    Attributes:
        path: Program, as a path or a name.
        options: Words between it and the script.
    """

    path: str
    options: tuple[str, ...] = ()

    @property
    def deaf(self) -> str:
        """The option that makes it ignore ``PYTHONPATH`` (``-I``, ``-E``); empty if there is none."""
        for word in self.options:
            if word.startswith("--"):
                continue
            for letter in word[1:]:
                if letter in "IE":
                    return word
                if letter in "cmWX":
                    break
        return ""


def find_interpreter(host: Host, config: LabConfig) -> Interpreter:
    """Interpreter of the server: ``[server] python``, else the one in the command, else the one its script names.

    Args:
        host: Where it runs.
        config: The lab's settings.
    """
    named = config.server.python
    command = config.server.command
    at = next((at for at, word in enumerate(command) if "python" in word.rpartition("/")[2]), None)
    if at is not None:
        return Interpreter(path=named or command[at], options=options(command[at + 1 :]))
    words = shebang(host, command[0])
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if word != "-S" and "=" not in word]
    if words and "python" in words[0].rpartition("/")[2]:
        return Interpreter(path=named or words[0], options=options(words[1:]))
    return Interpreter(path=named or "python3")


def options(words: Sequence[str]) -> tuple[str, ...]:
    """Options of the interpreter itself: what stands before the script, or up to ``-m`` or ``-c``."""
    found: list[str] = []
    for word in words:
        if not word.startswith("-") or word == "-":
            break
        found.append(word)
        if not word.startswith("--") and any(letter in word for letter in "cm"):
            break
    return tuple(found)


def shebang(host: Host, program: str) -> list[str]:
    """Words of a script's first line behind ``#!``; none for a binary, or where nothing can be read."""
    found = host.run(["sh", "-c", 'command -v -- "$1"', "sh", program], timeout_s=30)
    path = found.out.decode().strip()
    try:
        head = (host.look(path) or b"")[:LONGEST_LINE] if path.startswith("/") else b""
    except HostError:
        return []
    return head.split(b"\n")[0][len(SHEBANG) :].decode(errors="replace").split() if head.startswith(SHEBANG) else []
