"""What a running llama-server says of its flags.

Where its pages and its log say nothing about a flag, its presence in the arguments is the evidence.
"""

import math
import re
from collections.abc import Callable, Mapping

import msgspec

from knowngood.config.rules import shipped_rules
from knowngood.engines.llamacpp.flags import ALIASES
from knowngood.engines.llamacpp.pages import read_counters, read_props, read_slots
from knowngood.engines.proofs import flag_naming, prove_by_process
from knowngood.model.change import Change, Edit, File, Flag
from knowngood.model.evidence import Proof
from knowngood.model.launch import flag_values, spellings
from knowngood.ports import Observed

Said = tuple[bool, str] | None
"""Whether the server says that a value is in force, and how it says so; None if it says nothing."""

LAYER = "llamacpp"
"""Its rules for log lines."""

KV_PADDING = 256
"""llama.cpp rounds the context of a slot up to a multiple of this."""

SAMPLING = {
    "--seed": "seed",
    "--temp": "temperature",
    "--top-k": "top_k",
    "--top-p": "top_p",
    "--min-p": "min_p",
    "--predict": "n_predict",
    "--repeat-penalty": "repeat_penalty",
}
"""Flag to its field in the default generation settings."""

THREADS = re.compile(r"threadpool init, n_threads = (\d+)")
UNIFIED = re.compile(r"kv_unified = '(true|false)'")


def prove(change: Change, observed: Observed) -> Proof:
    """Whether a member of a change set is in force on a llama-server."""
    proof = prove_by_process(change, observed, aliases=ALIASES)
    if proof.holds is False:
        return proof
    said: Said = None
    if isinstance(change, Flag) and not change.remove:
        canonical = ALIASES.get(change.flag, change.flag)
        said = denied(canonical, observed.log) or said_of(canonical, change.value, observed)
    elif isinstance(change, Edit | File):
        said = said_of_file(change, observed)
    return proof if said is None else msgspec.structs.replace(proof, holds=said[0], evidence=said[1])


def denied(canonical: str, log: str) -> Said:
    """Look for a line that says a flag is not in force."""
    for rule in shipped_rules(LAYER):
        if rule.role == "silent" and canonical in rule.flags:
            line = next((line for line in log.splitlines() if rule.finds(line)), "")
            if line:
                return False, f"the log says: {line.strip()}"
    return None


def said_of(canonical: str, value: str | None, observed: Observed) -> Said:
    """What the server's pages and log say of one flag."""
    if canonical in LOOKUP_CACHES or canonical.startswith("--spec-"):
        return said_of_speculation(canonical, value, observed)
    if canonical in SAMPLING:
        field = SAMPLING[canonical]
        params = read_props(observed.pages).default_generation_settings.params
        return compare_number(value, params.get(field), f"/props {field}")
    reader = READERS.get(canonical)
    return None if reader is None else reader(value, observed)


def said_of_slots(value: str | None, observed: Observed) -> Said:
    """``--parallel``: number of slots."""
    return compare_number(value, read_props(observed.pages).total_slots, "/props total_slots")


def said_of_context(value: str | None, observed: Observed) -> Said:
    """``--ctx-size``: context of a slot, or of all slots together; 0 leaves it to the model."""
    slots = read_slots(observed.pages)
    asked = int(value) if value is not None and value.isdigit() else 0
    if not slots or not asked:
        return None
    each = slots[0].n_ctx
    holds = any(share <= each < share + KV_PADDING for share in (asked, asked // len(slots)))
    return holds, f"/slots says {len(slots)} slots of n_ctx {each}"


def said_of_threads(value: str | None, observed: Observed) -> Said:
    """``--threads``: size of the thread pool, from the log."""
    found = THREADS.search(observed.log)
    if found is None or value is None or not value.isdigit():
        return None
    return value == found.group(1), f"the log says n_threads = {found.group(1)}"


def said_of_unified(wanted: str) -> Callable[[str | None, Observed], Said]:
    """``--kv-unified`` and its opposite: from the log."""

    def read(value: str | None, observed: Observed) -> Said:
        del value
        found = UNIFIED.search(observed.log)
        return None if found is None else (found.group(1) == wanted, f"the log says kv_unified = {found.group(1)}")

    return read


def said_of_alias(value: str | None, observed: Observed) -> Said:
    """``--alias``: the name that the server answers to."""
    name = read_props(observed.pages).model_alias
    return None if name is None else (name in (value or "").split(","), f"/props model_alias is {name!r}")


def said_of_model(value: str | None, observed: Observed) -> Said:
    """``--model``: the file that was loaded."""
    path = read_props(observed.pages).model_path
    return None if path is None else (path == value, f"/props model_path is {path!r}")


def said_of_page(path: str) -> Callable[[str | None, Observed], Said]:
    """A flag that opens an endpoint: it answered, or not."""

    def read(value: str | None, observed: Observed) -> Said:
        del value
        answered = path in observed.pages
        return answered, f"{path} {'answers' if answered else 'does not answer'}"

    return read


def said_of_speculation(canonical: str, value: str | None, observed: Observed) -> Said:
    """Speculation: whether every slot has it, which type it is, and what came of it."""
    slots = read_slots(observed.pages)
    if not slots:
        return None
    on = all(slot.speculative for slot in slots)
    if canonical == "--spec-type" and value == "none":
        return not on, f"/slots says speculative: {str(on).lower()}"
    if not on:
        return False, "/slots says speculative: false, although the server is ready and answers"
    types = next((slot.params.speculative_types for slot in slots if slot.params is not None), "")
    missing = [name for name in (value or "").split(",") if types and name not in types.split(",")]
    if canonical == "--spec-type" and missing:
        return False, f"/slots says speculative.types {types!r}, without {missing[0]}"
    return True, f"/slots says speculative: true{drafted(observed)}"


def drafted(observed: Observed) -> str:
    """How many tokens were drafted and accepted so far, as the end of a sentence."""
    counts = read_counters(observed.pages)
    if "draft" not in counts:
        return ""
    return f"; /metrics says {counts['draft']} tokens drafted, {counts.get('accepted', 0)} accepted"


def said_of_file(change: Edit | File, observed: Observed) -> Said:
    """A file that the server shows, or whose reader says whether it works."""
    argv = observed.inside.argv
    flag = flag_naming(change.path, argv)
    if isinstance(change, File) and flag_naming(change.path, values_of("--chat-template-file", argv)):
        template = read_props(observed.pages).chat_template
        if template is not None:
            read = template.strip() == change.content.decode(errors="replace").strip()
            return read, f"/props chat_template is {'the' if read else 'not the'} text of {change.path}"
    for cache in LOOKUP_CACHES:
        if flag_naming(change.path, values_of(cache, argv)):
            said = said_of_speculation(cache, None, observed)
            return None if said is None else (said[0], f"{flag} names it; {said[1]}")
    return None


def values_of(flag: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Values of a flag, whatever it is called."""
    return tuple(value for value in flag_values(argv, spellings(flag, ALIASES)) if value)


LOOKUP_CACHES = ("--lookup-cache-static", "--lookup-cache-dynamic")

READERS: Mapping[str, Callable[[str | None, Observed], Said]] = {
    "--parallel": said_of_slots,
    "--ctx-size": said_of_context,
    "--threads": said_of_threads,
    "--kv-unified": said_of_unified("true"),
    "--no-kv-unified": said_of_unified("false"),
    "--alias": said_of_alias,
    "--model": said_of_model,
    "--metrics": said_of_page("/metrics"),
    "--slots": said_of_page("/slots"),
}


def compare_number(value: str | None, said: object, where: str) -> Said:
    """Compare a flag's value with a number that the server gives; it stores most of them in single precision."""
    if value is None or not isinstance(said, int | float):
        return None
    try:
        same = math.isclose(float(value), said, rel_tol=1e-6)
    except ValueError:
        return None
    return same, f"{where} is {said:g}"
