"""llama.cpp's llama-server: from the PATH, or out of the ``xllamacpp`` wheel."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import msgspec

from knowngood.config.rules import shipped_rules
from knowngood.engines.llamacpp.flags import ALIASES
from knowngood.engines.llamacpp.proofs import LAYER, prove
from knowngood.engines.speculation import acceptance_length
from knowngood.errors import UsageError
from knowngood.model.change import Change
from knowngood.model.diagnosis import LogRule
from knowngood.model.evidence import Proof
from knowngood.model.launch import LaunchSpec, flag_values
from knowngood.ports import Observed, Readiness

PROGRAM = "llama-server"
BUILD = re.compile(r"build[_ ]info[\"': ]+([^\"\s,]+)|build: (\S+)")
LAUNCHER = ("-m", "knowngood.engines.llama_server")


class LlamaCpp:
    """llama-server: flags, readiness, log rules and effect proofs."""

    name = "llamacpp"
    aliases: Mapping[str, str] = ALIASES
    readiness: Readiness | None = Readiness(health="/health", first_answer="/v1/completions")
    pages: Sequence[str] = ("/props", "/slots", "/metrics", "/v1/models")

    @property
    def rules(self) -> Sequence[LogRule]:
        """Its own, and those of what it stands on; a Python program may have launched it."""
        return shipped_rules(LAYER, "nccl", "cuda", "os", "python")

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

    def version(self, pages: Mapping[str, str], log: str) -> str:
        """Build, from ``/props`` or from the log."""
        builds = [found[1] or found[2] for text in (pages.get("/props", ""), log) for found in BUILD.finditer(text)]
        return next((build for build in builds if not build.endswith("unknown")), "")

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """Tokens that one verification yields; None if nothing was drafted, or nobody tells."""
        return acceptance_length(pages, log)

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Whether a member is in force: the process, then what the server says of itself, then its log."""
        return prove(change, observed)
