"""What SGLang, vLLM and TensorRT-LLM have in common: Python, worker processes, a configuration that is printed."""

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from knowngood.engines.fields import is_said
from knowngood.engines.nccl import said_by_nccl, with_nccl_log
from knowngood.engines.plain import Plain
from knowngood.engines.signs import Feature, Said, said_of_feature
from knowngood.model.change import Change, Env, Flag
from knowngood.model.evidence import Proof
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Observed

KEEP_ENVIRON = "SPT_NOENV"
"""Variable of ``setproctitle``: leave the environment in ``/proc/PID/environ`` when a process renames itself."""


class ResolvingServer(Plain):
    """A server that says what it made of its flags.

    Attributes:
        features: What may stay off although it was asked for.
        dests: Canonical spelling of a flag to the name of its field, where that is another than the flag's own.
        rewritten: Value of a flag to the value that the server makes of it.
    """

    features: Sequence[Feature] = ()
    dests: Mapping[str, str] = {}
    rewritten: Mapping[str, str] = {}

    def resolve(self, spec: LaunchSpec, *, which: Callable[[str], str | None]) -> LaunchSpec:
        """Find the program; keep environments readable, and have NCCL say what it makes of its variables.

        Raises:
            UsageError: The program is not there.
        """
        spec = super().resolve(spec, which=which)
        if KEEP_ENVIRON not in spec.env and KEEP_ENVIRON not in spec.unset:
            spec = msgspec.structs.replace(spec, env={**spec.env, KEEP_ENVIRON: "1"})
        return with_nccl_log(spec)

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Whether a member is in force: the processes, then what the server says of itself."""
        proof = super().prove(change, observed)
        if proof.holds is False:
            return proof
        said: Said = None
        if isinstance(change, Flag) and not change.remove:
            canonical = self.aliases.get(change.flag, change.flag)
            said = self.said_of_flag(canonical, change.value, observed)
        elif isinstance(change, Env):
            said = said_of_feature(change.name, self.features, observed.log) if is_on(change.value) else None
            said = said or said_by_nccl(change, observed.inside.environ, observed.log)
            said = said or self.said_of_variable(change, observed)
        return proof if said is None else msgspec.structs.replace(proof, holds=said[0], evidence=said[1])

    def said_of_flag(self, canonical: str, value: str | None, observed: Observed) -> Said:
        """What the server says of a flag: whether its feature is on, then what its configuration holds."""
        feature = said_of_feature(canonical, self.features, observed.log)
        if feature is not None:
            return feature
        name = self.dests.get(canonical, canonical.lstrip("-").replace("-", "_"))
        for where, fields in self.configurations(observed):
            said = self.compare(name, value, fields, where)
            if said is not None:
                return said
        return None

    def compare(self, name: str, value: str | None, fields: Mapping[str, str], where: str) -> Said:
        """Compare a flag with the field of a configuration."""
        asked = None if value is None else self.rewritten.get(value, value)
        opposite = name.removeprefix("no_") if name.startswith("no_") and value is None else ""
        if opposite and opposite in fields:
            return fields[opposite] == "False", f"{where} says {opposite} is {fields[opposite]}"
        if name not in fields:
            return None
        same = is_said(asked, fields[name])
        return None if same is None else (same, f"{where} says {name} is {fields[name]}")

    def configurations(self, observed: Observed) -> Sequence[tuple[str, Mapping[str, str]]]:
        """Where the server says what it resolved its flags to, most reliable first: name of the place, its fields."""
        del observed
        return ()

    def said_of_variable(self, change: Env, observed: Observed) -> Said:
        """What the server says of a variable."""
        del change, observed
        return None


def is_on(value: str | None) -> bool:
    """Whether a variable's value switches something on."""
    return (value or "").lower() not in {"", "0", "false", "no", "off"}


def first_number(pattern: str, text: str) -> float | None:
    """The number in a pattern's first group, or None."""
    found = re.search(pattern, text)
    return float(found[1]) if found else None
