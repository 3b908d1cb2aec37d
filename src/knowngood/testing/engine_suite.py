"""Conformance suite for engines: subclass it, give it an ``engine`` fixture, and run it with pytest."""

import re

import msgspec
import pytest

from knowngood.errors import UsageError
from knowngood.model.change import Edit, Env, File, Flag
from knowngood.model.diagnosis import CAUSES
from knowngood.model.launch import LaunchSpec, spellings
from knowngood.model.process import Imported, LiveProcess, Witness
from knowngood.ports import Engine, Inside, Observed
from knowngood.reason.diagnose import diagnose

SPEC = LaunchSpec(argv=("server", "--flag", "1"), env={"A": "1"}, cwd="/srv", port=8080)


def observe(*argv: str, environ: dict[str, str] | None = None, files: dict[str, str] | None = None) -> Observed:
    """A live process that shows nothing but what the operating system knows."""
    inside = Inside(argv=("server", *argv), environ=environ or {}, pids=(41,), ports=(8080,), rss_mb=1.0)
    return Observed(inside=inside, pages={}, log="", files=files or {})


class EngineSuite:
    """What flow relies on; override the fixture."""

    @pytest.fixture
    def engine(self) -> Engine:
        """The engine under test."""
        raise NotImplementedError

    def test_the_name_is_one_word(self, engine: Engine) -> None:
        """It stands in ``[server] engine``."""
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", engine.name)

    def test_aliases_end_at_a_canonical_spelling(self, engine: Engine) -> None:
        """An alias of an alias would not be found."""
        assert all(name.startswith("-") for name in engine.aliases)
        assert not set(engine.aliases.values()) & set(engine.aliases)
        for name, canonical in engine.aliases.items():
            assert name in spellings(canonical, engine.aliases)

    def test_each_example_is_read_as_its_own_rule_says(self, engine: Engine) -> None:
        """Of all rules of the engine, in a log that holds nothing else."""
        for rule in engine.rules:
            for line in rule.examples if rule.role != "stage" else ():
                assert diagnose([line.encode()], engine.rules).rule == rule.id, line

    def test_rules_name_known_causes_and_say_what_to_do(self, engine: Engine) -> None:
        """A dead end without a scope is wrong sooner or later."""
        for rule in engine.rules:
            assert rule.cause in CAUSES or rule.role in ("wrapper", "stage")
            assert rule.remedy or rule.role == "stage"
            assert rule.component
            assert bool(rule.scope) or not rule.hard

    def test_pages_are_paths(self, engine: Engine) -> None:
        """They are put behind the server's root URL."""
        assert all(page.startswith("/") for page in engine.pages)
        assert engine.readiness is None or engine.readiness.health.startswith("/")

    def test_a_missing_program_is_refused_with_a_hint(self, engine: Engine) -> None:
        """Before anything starts."""
        with pytest.raises(UsageError, match="server") as refused:
            engine.resolve(SPEC, which=lambda _: None)
        assert refused.value.hint

    def test_resolve_keeps_what_the_user_wrote(self, engine: Engine) -> None:
        """It may add flags and variables, never change or drop one; doing it twice adds nothing."""
        real = engine.resolve(SPEC, which=lambda name: f"/bin/{name}")
        assert real.argv[: len(SPEC.argv)] == SPEC.argv
        assert SPEC.env.items() <= real.env.items()
        assert (real.cwd, real.port, real.unset) == (SPEC.cwd, SPEC.port, SPEC.unset)
        assert engine.resolve(real, which=lambda name: f"/bin/{name}") == real

    def test_a_variable_is_proven_by_the_process(self, engine: Engine) -> None:
        """In force, of another value, missing, taken away."""
        seen = observe(environ={"A": "1"})
        assert engine.prove(Env(name="A", value="1"), seen).holds is True
        assert engine.prove(Env(name="A", value="2"), seen).holds is False
        assert engine.prove(Env(name="B", value="1"), seen).holds is False
        assert engine.prove(Env(name="A"), seen).holds is False
        assert engine.prove(Env(name="B"), seen).holds is True

    def test_a_variable_that_the_server_overwrites_is_not_in_force(self, engine: Engine) -> None:
        """The processes that compute have their own environment."""
        inside = observe(environ={"A": "1"}).inside
        for value, expected in (("1", True), ("8", False)):
            others = (LiveProcess(pid=41, environ={"A": "1"}), LiveProcess(pid=42, environ={"A": value}))
            seen = Observed(
                inside=msgspec.structs.replace(inside, processes=others, pids=(41, 42)), pages={}, log="", files={}
            )
            assert engine.prove(Env(name="A", value="1"), seen).holds is expected

    def test_an_environment_that_cannot_be_read_proves_nothing(self, engine: Engine) -> None:
        """Neither way."""
        assert engine.prove(Env(name="A", value="1"), observe()).holds is None

    def test_what_says_nothing_has_neither_version_nor_acceptance(self, engine: Engine) -> None:
        """A server that answers nothing."""
        assert engine.version({}, "") == ""
        assert engine.acceptance_length({}, "") is None

    def test_its_patterns_are_regular_expressions(self, engine: Engine) -> None:
        """They are compiled while a server is waited for."""
        if engine.readiness is not None:
            for pattern in (*engine.readiness.stages, engine.readiness.hopeless):
                re.compile(pattern)

    def test_a_source_file_must_be_loaded_by_a_process_that_lives(self, engine: Engine) -> None:
        """By its own import or its parent's before the fork, from these very bytes."""
        path, digest = "/srv/pkg/mod.py", "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        change = Edit(path="python:pkg/mod.py", find="a", replace="b")
        processes = (
            LiveProcess(pid=41, started_s=10.0),
            LiveProcess(pid=42, parent=41, started_s=20.0),
        )
        inside = msgspec.structs.replace(observe().inside, pids=(41, 42), processes=processes)

        def holds(*imported: Imported, interpreters: dict[int, float]) -> bool | None:
            witness = Witness(interpreters=interpreters, imported=imported)
            return engine.prove(
                change, Observed(inside=inside, pages={}, log="", files={path: digest}, witness=witness)
            ).holds

        load = Imported(pid=42, at=21.0, path=path, sha256=digest)
        both = {41: 10.1, 42: 20.1}
        assert holds(load, interpreters=both) is True
        assert holds(msgspec.structs.replace(load, pid=41, at=15.0), interpreters={41: 10.1}) is True
        assert holds(interpreters=both) is False
        assert holds(msgspec.structs.replace(load, same=False), interpreters=both) is False
        assert holds(msgspec.structs.replace(load, sha256="0" * 64), interpreters=both) is False
        assert holds(msgspec.structs.replace(load, pid=43), interpreters={**both, 43: 20.5}) is None
        assert holds(interpreters={}) is None

    def test_a_flag_must_stand_in_the_arguments(self, engine: Engine) -> None:
        """The last occurrence counts."""
        seen = observe("--made-up", "1", "--made-up=2", "--bare")
        assert engine.prove(Flag(flag="--made-up", value="2"), seen).holds is True
        assert engine.prove(Flag(flag="--made-up", value="1"), seen).holds is False
        assert engine.prove(Flag(flag="--made-up", value="1", append=True), seen).holds is True
        assert engine.prove(Flag(flag="--bare"), seen).holds is True
        assert engine.prove(Flag(flag="--bare", remove=True), seen).holds is False
        assert engine.prove(Flag(flag="--absent"), seen).holds is False
        assert engine.prove(Flag(flag="--absent", remove=True), seen).holds is True

    def test_a_file_must_have_its_bytes_at_launch(self, engine: Engine) -> None:
        """And something must name it."""
        digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        change = File(path="/srv/x.json", content=b"foo")
        assert engine.prove(change, observe()).holds is False
        assert engine.prove(change, observe(files={"/srv/x.json": "0" * 64})).holds is False
        assert engine.prove(change, observe(files={"/srv/x.json": digest})).holds is None
        assert engine.prove(change, observe("--made-up", "x.json", files={"/srv/x.json": digest})).holds is True

    def test_evidence_says_what_was_seen(self, engine: Engine) -> None:
        """In a sentence that names the member."""
        proof = engine.prove(Flag(flag="--made-up", value="2"), observe("--made-up", "2"))
        assert proof.member == "flag --made-up 2"
        assert "--made-up 2" in proof.evidence
