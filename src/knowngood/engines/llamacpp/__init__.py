"""llama.cpp's llama-server: from the PATH, or out of the ``xllamacpp`` wheel."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import msgspec

from knowngood.engines.llamacpp.flags import ALIASES
from knowngood.engines.llamacpp.proofs import prove
from knowngood.engines.llamacpp.rules import RULES
from knowngood.engines.speculation import acceptance_length
from knowngood.errors import UsageError
from knowngood.model.change import Change
from knowngood.model.diagnosis import LogRule
from knowngood.model.evidence import Proof
from knowngood.model.launch import LaunchSpec, flag_values
from knowngood.ports import Observed, Readiness

PROGRAM = "llama-server"
LAUNCHER = ("-m", "knowngood.engines.llama_server")


class LlamaCpp:
    """llama-server: flags, readiness, log rules and effect proofs."""

    name = "llamacpp"
    aliases: Mapping[str, str] = ALIASES
    rules: Sequence[LogRule] = RULES
    readiness: Readiness | None = Readiness(health="/health", first_answer="/v1/completions")
    pages: Sequence[str] = ("/props", "/slots", "/metrics", "/v1/models")

    def resolve(self, spec: LaunchSpec, *, which: Callable[[str], str | None]) -> LaunchSpec:
        """Find the program; add ``--metrics`` and ``--slots``, which the effect proofs read.

        A bare ``llama-server`` that is not on the PATH is taken from the ``xllamacpp`` package if that is installed.

        Raises:
            UsageError: The program is not there.
        """
        program, *words = spec.argv
        if which(program) is not None:
            found: tuple[str, ...] = (program,)
        elif program == PROGRAM and find_spec("xllamacpp") and which(sys.executable) is not None:
            found = (sys.executable, *LAUNCHER)
        else:
            raise UsageError(
                f"there is no program {program!r} on the host",
                hint="install llama.cpp's llama-server, or `pip install xllamacpp` beside knowngood, "
                "or write the path of the program in [server] command",
            )
        missing = tuple(
            flag
            for flag, off in (("--metrics", "--no-metrics"), ("--slots", "--no-slots"))
            if not flag_values(words, (flag, off))
        )
        return msgspec.structs.replace(spec, argv=(*found, *words, *missing))

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Whether a member is in force: the process, then what the server says of itself, then its log."""
        return prove(change, observed)

    def acceptance_length(self, observed: Observed) -> float | None:
        """Tokens per verification under speculation; None if nothing was drafted, or nobody tells."""
        return acceptance_length(observed)
