"""How a program of ours begins on a machine that has nothing of ours: a shell finds a Python, which reads the rest."""

import shlex
from collections.abc import Sequence

TOO_OLD = 86
"""Exit status of an interpreter that is too old; the next one is tried then."""


def boot_words(
    names: Sequence[str], code: str, *, arguments: str = "", before: str = "", missing: str = "no Python"
) -> list[str]:
    """Shell words that look for an interpreter and become it.

    Args:
        names: Interpreters to try, in order.
        code: What it runs first, without any quotes, so that it survives any number of shells; exits with ``TOO_OLD``
            where it cannot go on.
        arguments: Words behind the code.
        before: Words in front of the interpreter, such as ``sudo -n``.
        missing: What is said if none will do.
    """
    begin = " ".join(filter(None, (before, '"$p"', "-IS", "-c", f'"{code}"', arguments)))
    script = (
        f'for p in {" ".join(map(shlex.quote, names))}; do command -v "$p" >/dev/null 2>&1 || continue; '
        f'{begin}; s=$?; [ $s = {TOO_OLD} ] || exit $s; done; echo "{missing}" >&2; exit 127'
    )
    return ["sh", "-c", script]
