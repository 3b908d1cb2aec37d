import hashlib
import json

import pytest

from knowngood.engines.llamacpp import LlamaCpp
from knowngood.model.change import Change, Edit, File, Flag, Patch
from knowngood.ports import Inside, Observed

# Out of pages and logs that llama.cpp b11549 gave.
SLOT = {"id": 0, "n_ctx": 1024, "speculative": False, "is_processing": False, "params": {"speculative.types": "none"}}
PROPS = {
    "default_generation_settings": {"params": {"seed": 4294967295, "temperature": 0.800000011920929, "top_k": 40}},
    "total_slots": 4,
    "model_alias": "smol",
    "model_path": "/models/m.gguf",
    "chat_template": "{{ messages }}",
}
METRICS = """\
# TYPE llamacpp:spec_decode_num_draft_tokens_total counter
llamacpp:spec_decode_num_draft_tokens_total 11
# TYPE llamacpp:spec_decode_num_accepted_tokens_total counter
llamacpp:spec_decode_num_accepted_tokens_total 9
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 4
"""
LOG = """\
0.00.697.858 I cmn          init: llama threadpool init, n_threads = 4
0.01.925.677 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 1024, kv_unified = 'false'
"""
CAPPED = (
    "0.03.249.760 W srv    load_model: the slot context (20224) exceeds the training context of the model (8192) - "
    "capping\n"
)
VOCABULARY = "0.10.471.972 E spec common_specu: the target and draft vocabs are not compatible\n"
NO_GPU = "warning: no usable GPU found, --gpu-layers option will be ignored\n"


def observe(
    *argv: str,
    speculative: bool = False,
    types: str = "none",
    log: str = LOG,
    props: dict[str, object] | None = None,
    files: dict[str, str] | None = None,
) -> Observed:
    slots = [{**SLOT, "speculative": speculative, "params": {"speculative.types": types}}] * 4
    return Observed(
        inside=Inside(argv=("llama-server", *argv), environ={}, pids=(7,), ports=(8080,), rss_mb=300),
        pages={"/props": json.dumps({**PROPS, **(props or {})}), "/slots": json.dumps(slots), "/metrics": METRICS},
        log=log,
        files=files or {},
    )


def holds(change: Change, observed: Observed) -> bool | None:
    return LlamaCpp().prove(change, observed).holds


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("-np", "4", True),
        ("--parallel", "8", False),
        ("-c", "4096", True),
        ("-c", "1000", True),
        ("-c", "8192", False),
        ("-c", "0", True),
        ("-t", "4", True),
        ("--threads", "2", False),
        ("--alias", "smol", True),
        ("-a", "other", False),
        ("-m", "/models/m.gguf", True),
        ("-m", "/models/other.gguf", False),
        ("--temp", "0.8", True),
        ("--temp", "0.7", False),
        ("--top-k", "40", True),
        ("--top-k", "many", True),
        ("--no-kv-unified", None, True),
        ("-kvu", None, False),
        ("--metrics", None, True),
        ("-b", "512", True),
    ],
)
def test_the_server_is_asked_for_what_it_resolved(flag: str, value: str | None, *, expected: bool) -> None:
    words = (flag,) if value is None else (flag, value)
    assert holds(Flag(flag=flag, value=value), observe(*words)) is expected


def test_the_last_occurrence_under_any_spelling_counts() -> None:
    seen = observe("-np", "4", "--parallel", "2")
    assert holds(Flag(flag="-np", value="4"), seen) is False


def test_a_page_that_does_not_answer_is_no_evidence_of_the_contrary() -> None:
    seen = Observed(
        inside=Inside(argv=("llama-server", "-np", "4"), environ={}, pids=(7,), ports=(), rss_mb=1),
        pages={"/props": "no JSON", "/slots": "{}"},
        log="",
        files={},
    )
    assert holds(Flag(flag="-np", value="4"), seen) is True
    assert holds(Flag(flag="--metrics"), seen) is False


@pytest.mark.parametrize(
    ("speculative", "types", "expected"),
    [(True, "none,ngram-simple", True), (False, "none,ngram-simple", False), (True, "none,ngram-mod", False)],
)
def test_speculation_is_read_from_the_slots(types: str, *, speculative: bool, expected: bool) -> None:
    seen = observe("--spec-type", "ngram-simple", speculative=speculative, types=types)
    assert holds(Flag(flag="--spec-type", value="ngram-simple"), seen) is expected


def test_what_speculation_did_is_part_of_the_evidence() -> None:
    seen = observe("--spec-draft-n-max", "8", speculative=True)
    proof = LlamaCpp().prove(Flag(flag="--spec-draft-n-max", value="8"), seen)
    assert proof.evidence == "/slots says speculative: true; /metrics says 11 tokens drafted, 9 accepted"


def test_speculation_that_is_switched_off_is_off() -> None:
    assert holds(Flag(flag="--spec-type", value="none"), observe("--spec-type", "none")) is True
    assert holds(Flag(flag="--spec-type", value="none"), observe("--spec-type", "none", speculative=True)) is False


@pytest.mark.parametrize(
    ("flag", "value", "line"),
    [
        ("-md", "d.gguf", VOCABULARY),
        ("--spec-type", "draft-simple", VOCABULARY),
        ("-ngl", "99", NO_GPU),
        ("-c", "20000", CAPPED),
    ],
)
def test_a_line_that_denies_a_flag_is_the_evidence(flag: str, value: str, line: str) -> None:
    proof = LlamaCpp().prove(Flag(flag=flag, value=value), observe(flag, value, log=LOG + line))
    assert proof.holds is False
    assert proof.evidence == f"the log says: {line.strip()}"
    assert holds(Flag(flag="--batch-size", value="8"), observe("--batch-size", "8", log=LOG + line)) is True


def test_a_chat_template_is_compared_with_what_the_server_shows() -> None:
    content = b"{{ messages }}\n"
    change = File(path="/srv/chat.jinja", content=content)
    files = {"/srv/chat.jinja": hashlib.sha256(content).hexdigest()}
    argv = ("--chat-template-file", "chat.jinja")
    assert holds(change, observe(*argv, files=files)) is True
    assert holds(change, observe(*argv, files=files, props={"chat_template": "another"})) is False
    assert holds(change, observe(files=files)) is None


def test_a_lookup_cache_works_only_with_speculation() -> None:
    change = File(path="/srv/lookup.bin", content=b"x")
    files = {"/srv/lookup.bin": hashlib.sha256(b"x").hexdigest()}
    argv = ("-lcs", "/srv/lookup.bin")
    assert holds(change, observe(*argv, files=files, speculative=True)) is True
    assert holds(change, observe(*argv, files=files)) is False


def test_edits_and_patches_are_found_at_launch() -> None:
    edit = Edit(path="python:pkg/mod.py", find="a", replace="b")
    patch = Patch(name="p.diff", root="python:pkg", diff=b"")
    files = {"/usr/lib/python3/pkg/mod.py": "0" * 64}
    assert holds(edit, observe(files=files)) is None
    assert holds(edit, observe(files={"/usr/lib/python3/pkg/mod.py": ""})) is False
    assert holds(patch, observe(files=files)) is None
    assert holds(patch, observe(files={"/elsewhere/mod.py": "0" * 64})) is False


def test_a_program_that_has_ended_tells_nothing() -> None:
    gone = Observed(inside=Inside(argv=(), environ={}, pids=(), ports=(), rss_mb=0), pages={}, log="", files={})
    assert holds(Flag(flag="-b", value="8"), gone) is None
