"""The whole page: what it must say, and what it must never say, for labs from empty to large."""

import gzip
import json
import math
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from knowngood.config.lab import LabConfig, load_lab
from knowngood.faces.report.contents import Contents, HostState
from knowngood.faces.report.curves import read_distributions
from knowngood.faces.report.history import counted, kept_steps, pair_differences, progress
from knowngood.faces.report.page import document
from knowngood.faces.report.plot import draw_overview
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet, Edit, Env, Flag, Patch
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import (
    AnswersChecked,
    BaselineRecorded,
    BaselineStarted,
    Event,
    FindingRecorded,
    KeepUndone,
    LaunchFailed,
    LaunchMeasured,
    PairRepeated,
    TrialEnded,
    TrialStarted,
)
from knowngood.model.evidence import AnswerCheck, Arm, LaunchRecord, Proof, RunRecord
from knowngood.model.hypothesis import Hypothesis, Prediction
from knowngood.model.verdict import Verdict
from knowngood.reason.answers import detectable_share
from knowngood.reason.findings import learn
from knowngood.reason.fold import LabState, fold
from knowngood.reason.judge import Judge
from knowngood.reason.noise import noise_from_launches
from knowngood.reason.rank import rank
from knowngood.stores.artifacts import ArtifactFolder

LAB = """
[server]
engine = "llamacpp"
command = ["llama-server", "-m", "/models/tiny-story-15m-q8.gguf", "-c", "2048", "-t", "2", "-np", "4"]
port = 8099

[[workload]]
name = "chat"
isl = 128
osl = 64
concurrency = 4

[objective]
metric = "output_tok_s"
worthwhile = "2%"

[guards]
ttft_p99_ms = "+5%"
"""
FACTS = {
    "cpu": "AMD EPYC 7B13",
    "cores": "8",
    "memory_mb": "32110",
    "kernel": "6.1.0-18-amd64",
    "engine": "llamacpp",
    "engine_version": "b6123-3c1f2a9",
    "model": "tiny-story-15m-q8.gguf",
}
BEGIN = 1_767_256_200.0
SLOT_S = 34.0
EVIL = "<script>alert('x')</script> & \x1b[31mred\x1b[0m"


@pytest.fixture
def config(tmp_path: Path) -> LabConfig:
    (tmp_path / "knowngood.toml").write_text(LAB)
    return load_lab(tmp_path)


class History:
    """A lab's past, one event after the other, on a simulated machine and judged by the real rule.

    Args:
        config: Settings of the lab.
        artifacts: Where raw samples go; None writes none.
    """

    def __init__(self, config: LabConfig, artifacts: ArtifactFolder | None = None) -> None:
        self.config = config
        self.artifacts = artifacts
        self.rng = random.Random(7)
        self.now = BEGIN
        self.speed = 412.0
        self.events: list[Event] = []

    @property
    def state(self) -> LabState:
        return fold(enumerate(self.events, start=1))

    def launch(
        self, arm: Arm, index: int, speed: float, *, pair: int, attempt: int = 0, foreign: float = 0.03
    ) -> LaunchRecord:
        value = speed * math.exp(self.rng.gauss(0, 0.008) - 0.1 * foreign)
        self.now += SLOT_S
        run = RunRecord(
            workload="chat",
            metrics={"output_tok_s": value, "ttft_p99_ms": 9e3 / value * math.exp(self.rng.gauss(0, 0.004))},
            requests=60,
            seconds=10.0,
            foreign_cores=max(0.0, foreign + self.rng.gauss(0, 0.01)),
            samples=self.samples(value) if self.artifacts else "",
        )
        started = self.now - SLOT_S
        return LaunchRecord(
            arm=arm,
            index=index,
            pair=pair,
            attempt=attempt,
            started_at=started,
            ready_s=6.2,
            runs=(run,),
            value=value,
            rss_mb=212,
        )

    def samples(self, value: float) -> str:
        assert self.artifacts is not None
        lines = ['{"record":"header","version":1}']
        for index in range(30):
            gaps = [round(4e6 / value * self.rng.lognormvariate(0, 0.18)) for _ in range(40)]
            ttft = round(9e6 / value * self.rng.lognormvariate(0, 0.3))
            sent = index * 100_000
            row = {
                "record": "request",
                "index": index,
                "phase": "measured",
                "scheduled_us": sent,
                "sent_us": sent,
                "status": 200,
            }
            row |= {"e2e_us": ttft + sum(gaps), "ttft_us": ttft, "gaps_us": gaps, "tokens": 41, "prompt_tokens": 128}
            lines.append(json.dumps(row))
        lines.append('{"record":"window","start_us":0,"end_us":10000000}')
        return self.artifacts.put(gzip.compress("\n".join(lines).encode()))

    def baseline(self, pairs: int = 4) -> None:
        spec = self.config.spec
        baseline = Baseline(version=1, spec=spec, origin=spec, facts=FACTS, workloads="w1")
        self.events.append(BaselineStarted(at=self.now, run="b0001", baseline=baseline, launches=2 * pairs))
        launches = [self.launch("baseline", index, self.speed, pair=index // 2) for index in range(2 * pairs)]
        self.events += [LaunchMeasured(at=self.now, run="b0001", launch=launch) for launch in launches]
        noise = noise_from_launches([launch.value for launch in launches])
        self.events.append(BaselineRecorded(at=self.now, run="b0001", baseline=baseline, noise={"output_tok_s": noise}))

    def begin(self, hypothesis: Hypothesis) -> str:
        state = self.state
        name = f"t{len(state.trials) + 1:04d}"
        version = state.baseline.version if state.baseline else 0
        self.now += 60
        self.events.append(
            TrialStarted(
                at=self.now, trial=name, hypothesis=hypothesis, baseline=version, profile="standard", mde=0.034
            )
        )
        return name

    def measure(
        self, name: str, effect: float, *, spoil: int | None = None, most: int = 24
    ) -> tuple[Verdict | None, list[LaunchRecord]]:
        state = self.state
        judge = Judge(
            worthwhile=self.config.worthwhile,
            noise=state.noise,
            ledger=[(launch.started_at, launch.value) for launch in state.ledger],
        )
        accepted: list[LaunchRecord] = []
        index = 0
        members = state.trials[name].hypothesis.changes.members
        proofs = tuple(
            Proof(member=str(n), holds=True, evidence="seen in /proc/4711/cmdline") for n, _ in enumerate(members)
        )
        if spoil is not None:
            spoiled: tuple[tuple[Arm, float], ...] = (("candidate", 0.02), ("baseline", 1.4))
            for arm, foreign in spoiled:
                launch = self.launch(
                    arm, index, self.speed * (1 + effect * (arm == "candidate")), pair=spoil, foreign=foreign
                )
                self.events.append(LaunchMeasured(at=self.now, run=name, launch=launch))
                index += 1
            why = "candidate 0.02 cores of foreign load, baseline 1.41 cores of foreign load"
            self.events.append(PairRepeated(at=self.now, trial=name, pair=spoil, why=why))
        while judge.verdict is None and index < most:
            turn = judge.next_arm
            assert turn is not None
            pair = len(accepted) // 2
            speed = self.speed * (1 + effect * (turn == "candidate"))
            launch = self.launch(turn, index, speed, pair=pair, attempt=int(pair == spoil))
            launch = msgspec.structs.replace(launch, proofs=proofs if turn == "candidate" else ())
            self.events.append(LaunchMeasured(at=self.now, run=name, launch=launch))
            accepted.append(launch)
            judge.add(arm=turn, value=launch.value, at=launch.started_at, verified=True)
            index += 1
        return judge.verdict, accepted

    def trial(
        self, hypothesis: Hypothesis, effect: float, *, spoil: int | None = None, answers: AnswerCheck | None = None
    ) -> str:
        name = self.begin(hypothesis)
        verdict, _ = self.measure(name, effect, spoil=spoil)
        assert verdict is not None
        if answers is not None:
            self.events.append(AnswersChecked(at=self.now, trial=name, check=answers))
        self.end(name, verdict)
        if verdict.decision == "keep":
            self.speed *= 1 + effect
        return name

    def end(self, name: str, verdict: Verdict, diagnosis: Diagnosis | None = None) -> None:
        state = self.state
        old = state.baseline
        assert old is not None
        hypothesis = state.trials[name].hypothesis
        new = None
        if verdict.decision == "keep":
            spec = hypothesis.changes.on(old.spec, aliases={})
            new = msgspec.structs.replace(old, version=old.version + 1, spec=spec, kept=(*old.kept, name))
        self.events.append(TrialEnded(at=self.now, trial=name, verdict=verdict, diagnosis=diagnosis, baseline=new))
        number = len(state.findings) + 1
        found = learn(
            number=number, trial=name, hypothesis=hypothesis, verdict=verdict, diagnosis=diagnosis, facts=FACTS
        )
        if found is not None:
            self.events.append(FindingRecorded(at=self.now, finding=found))

    def fail(self, hypothesis: Hypothesis, diagnosis: Diagnosis, why: str) -> str:
        name = self.begin(hypothesis)
        self.now += 9
        self.events.append(LaunchFailed(at=self.now, run=name, arm="candidate", index=0, why=why, diagnosis=diagnosis))
        self.end(name, Verdict(decision="void", why=why), diagnosis)
        return name

    def undo(self, name: str) -> None:
        now = self.state.baseline
        assert now is not None
        kept = tuple(one for one in now.kept if one != name)
        restored = msgspec.structs.replace(now, version=now.version + 1, kept=kept)
        self.events.append(KeepUndone(at=self.now, trial=name, baseline=restored))


def flags(
    name: str,
    *pairs: tuple[str, str | None],
    claim: str = "",
    because: str = "",
    gain: tuple[float, float] | None = None,
) -> Hypothesis:
    members = tuple(Flag(flag=flag, value=value) for flag, value in pairs)
    predicts = Prediction(metric="output_tok_s", low=gain[0], high=gain[1]) if gain else None
    return Hypothesis(
        name=name,
        claim=claim or f"{name} is faster here",
        because=because,
        changes=ChangeSet(members=members),
        predicts=predicts,
    )


GOOD_ANSWERS = AnswerCheck(
    asked=20,
    same=18,
    near_ties=2,
    own_asked=20,
    detects=detectable_share(20),
    examples=("near_tie: 'The laws of thermodynamics are' at 11: ' heat' instead of ' energy', 0.03 nats below",),
)
DEAD = Diagnosis(
    cause="incompatible_features",
    line="0.00.412.118 E llama_init_from_model: quantized V cache was requested, but this requires Flash Attention",
    line_number=212,
    component="llama.cpp",
    hard=True,
    scope="this engine version",
    remedy="drop --cache-type-v, or turn flash attention on",
    confidence=0.98,
    member="flag --cache-type-v q4_0",
)


def rich(config: LabConfig, artifacts: ArtifactFolder | None = None) -> History:
    past = History(config, artifacts)
    past.baseline()
    past.trial(
        flags(
            "threads-4",
            ("-t", "4"),
            claim="Four threads instead of two raise decode throughput",
            because="the box has 8 cores, and two of them cannot saturate the memory that decode is bound by",
            gain=(0.10, 0.40),
        ),
        0.27,
        answers=GOOD_ANSWERS,
    )
    past.trial(flags("null-change", claim="A null change is not kept"), 0.0)
    past.fail(
        flags("kv-q4", ("--cache-type-v", "q4_0"), claim="A quantised V cache halves KV traffic", gain=(0.02, 0.08)),
        DEAD,
        "the candidate's server ended with status 1 after 1.9 s",
    )
    past.trial(flags("batch-32", ("-b", "32"), claim="A tiny batch lowers TTFT without a loss"), -0.11)
    edit = Edit(path="/opt/engine/scheduler.py", find="max_wait = 10\nburst = 1", replace="max_wait = 2\nburst = 4")
    matched = ChangeSet(members=(edit, Env(name="OMP_PROC_BIND", value="close"), Env(name="OMP_PLACES", value="cores")))
    past.trial(
        Hypothesis(
            name="pin-and-burst",
            claim="Pinned threads and a larger burst belong together: either alone loses",
            because="an unpinned thread migrates in the middle of a burst",
            changes=matched,
            predicts=Prediction(metric="itl_p50_ms", low=-0.12, high=-0.04),
        ),
        0.062,
        spoil=1,
        answers=GOOD_ANSWERS,
    )
    past.trial(flags("ubatch-256", ("-ub", "256")), 0.018)
    patch = Patch(
        name="fast-sample.patch",
        root="/opt/engine",
        diff=b"--- a/sample.py\n+++ b/sample.py\n@@ -1 +1 @@\n-slow()\n+fast()\n",
    )
    undone = past.trial(
        Hypothesis(
            name="fast-sampler", claim="Sampling on one core is the bottleneck", changes=ChangeSet(members=(patch,))
        ),
        0.15,
    )
    past.undo(undone)
    past.trial(
        flags(
            "speculative", ("--draft-max", "8"), ("-md", "/models/draft.gguf"), claim="A draft model triples the output"
        ),
        1.9,
    )
    running = past.begin(flags("mlock", ("--mlock", None), claim="Locked memory steadies the tail"))
    past.measure(running, 0.01, most=3)
    return past


def contents(past: History, *, artifacts: ArtifactFolder | None = None, extra: Sequence[Hypothesis] = ()) -> Contents:
    state, config = past.state, past.config
    trials = tuple(state.trials.values())
    kept = state.baseline.kept if state.baseline else ()
    curves = {one.id: read_distributions(one, artifacts, config.workloads[0]) for one in trials} if artifacts else {}
    return Contents(
        config=config,
        state=state,
        host=HostState(known_good=True),
        plan=rank(extra, trials, state.findings, facts=FACTS, kept=kept),
        curves=curves,
        version="0.1.0",
    )


class Outline(HTMLParser):
    """Elements of a page, checked for balance on the way."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: set[str] = set()
        self.outside: list[str] = []
        self.tags: Counter[str] = Counter()
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.note(tag, attrs)
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            assert not name.startswith("on")
            if name == "id" and value:
                self.ids.append(value)
            elif name in {"href", "src"} and value and value.startswith("#"):
                self.targets.add(value[1:])
            elif name in {"href", "src"}:
                self.outside.append(str(value))


def outline(page: str) -> Outline:
    """What every page must hold to: balanced, self-contained, ids unique, links that lead somewhere."""
    found = Outline(page)
    assert len(found.ids) == len(set(found.ids))
    assert found.targets <= set(found.ids)
    assert found.outside == []
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert "url(" not in page
    assert "@import" not in page
    return found


def parse(drawing: str) -> ET.Element:
    return ET.fromstring(drawing)  # noqa: S314  (our own output)


def article(page: str, trial: str) -> str:
    found = re.search(rf'<article class="[^"]*" id="{trial}">.*?</article>', page, re.DOTALL)
    assert found
    return found[0]


def test_a_rich_lab_is_told_completely(config: LabConfig, tmp_path: Path) -> None:
    artifacts = ArtifactFolder(tmp_path / "artifacts")
    past = rich(config, artifacts)
    page = document(contents(past, artifacts=artifacts))
    found = outline(page)
    assert set(past.state.trials) <= set(found.ids)
    order = [
        page.index(f'id="{name}"') for name in ("headline", "gains", "trials", "t0001", "noise", "plan", "findings")
    ]
    assert order == sorted(order)
    first = article(page, "t0001")
    for part in ("Four threads instead", "8 cores", "flag -t 4", "proven better", "Effect proofs", "18 of 20 the same"):
        assert part in first
    for part in ("t0001-pairs", "t0001-time", "t0001-ttft", "t0001-itl", "ttft_p99_ms", " launches, "):
        assert part in first
    assert found.tags["desc"] == page.count('role="img"') > 20


def test_an_empty_lab_says_what_to_do_next(config: LabConfig) -> None:
    page = document(contents(History(config)))
    outline(page)
    assert "No baseline yet" in page
    assert "<svg" not in page


def test_a_baseline_alone_shows_its_noise(config: LabConfig) -> None:
    past = History(config)
    past.baseline()
    page = document(contents(past))
    outline(page)
    assert "Nothing kept yet" in page
    assert "4 A/A pairs" in page
    assert 'id="gains"' not in page


def test_a_baseline_that_was_cut_off_is_shown_as_far_as_it_went(config: LabConfig) -> None:
    past = History(config)
    past.baseline()
    past.events = past.events[:4]
    page = document(contents(past))
    outline(page)
    assert "3 of 8 launches" in page


def test_a_void_trial_shows_its_reason_and_no_number(config: LabConfig) -> None:
    past = History(config)
    past.baseline()
    name = past.begin(flags("kv-q4", ("--cache-type-v", "q4_0"), gain=(0.02, 0.08)))
    past.measure(name, 0.3, most=3)
    wrong = Verdict(decision="void", why="the server died", estimate=0.31, low=0.2, high=0.4, pairs=1, launches=3)
    past.end(name, wrong, DEAD)
    past.events.append(FindingRecorded(at=past.now, finding=past.state.findings[0]))
    page = document(contents(past))
    told = article(page, name)
    assert "the server died" in told
    assert "quantized V cache was requested" in told
    assert "hard: a dead end" in told
    assert "tok/s" not in told
    assert "<svg" not in told
    assert "%" not in told
    assert "+31" not in draw_overview(past.state, config)


def test_a_trial_that_did_not_end_has_no_effect(config: LabConfig) -> None:
    past = History(config)
    past.baseline()
    name = past.begin(flags("mlock", ("--mlock", None)))
    assert "No verdict" in article(document(contents(past)), name)
    past.measure(name, 0.0, most=3)
    told = article(document(contents(past)), name)
    assert "pair 1" in told
    assert 'class="effect"' not in told


def test_a_spoiled_pair_is_crossed_out_and_left_out(config: LabConfig) -> None:
    past = rich(config)
    trial = past.state.trials["t0005"]
    found = pair_differences(trial, "higher")
    assert [one.counts for one in found].count(False) == 1
    told = article(document(contents(past)), "t0005")
    assert "Crossed out, does not count: pair 2: candidate 0.02 cores" in told
    assert told.count('class="cross"') == len(("its difference", "its candidate", "its baseline"))
    assert "2 thrown away" in told


def test_the_waterfall_holds_the_keeps_in_force_and_no_other(config: LabConfig) -> None:
    past = rich(config)
    steps = kept_steps(past.state)
    assert past.state.baseline is not None
    assert [step.trial.id for step in steps] == list(past.state.baseline.kept)
    assert past.state.trials["t0007"].undone
    assert {"t0001", "t0008"} <= {step.trial.id for step in steps}
    assert "t0007" not in {step.trial.id for step in steps}
    product = 1.0
    for step in steps:
        assert step.trial.verdict is not None
        assert step.trial.verdict.estimate is not None
        product *= 1 + step.trial.verdict.estimate
    assert progress(past.state).gain == pytest.approx(product - 1)
    assert f"×{product:.2f}" in document(contents(past))


def test_less_is_better_turns_effects_and_the_expected_value_round(config: LabConfig) -> None:
    objective = msgspec.structs.replace(config.objective, metric="ttft_p50_ms")
    latency = msgspec.structs.replace(config, objective=objective, direction="lower")
    past = rich(config)
    trial = past.state.trials["t0001"]
    up, down = pair_differences(trial, "higher"), pair_differences(trial, "lower")
    assert [one.ln for one in up] == pytest.approx([-one.ln for one in down])
    past.config = latency
    reached = progress(past.state)
    assert reached.original is not None
    assert f"≈ {reached.original / (1 + reached.gain):.4g} ms" in document(contents(past))


def test_what_logs_and_experiments_say_never_becomes_markup(config: LabConfig) -> None:
    past = History(config)
    past.baseline()
    hypothesis = Hypothesis(
        name=EVIL,
        claim=EVIL,
        because=EVIL,
        changes=ChangeSet(members=(Env(name="A", value=EVIL), Edit(path=EVIL, find=EVIL, replace=EVIL))),
    )
    past.fail(hypothesis, msgspec.structs.replace(DEAD, line=EVIL, remedy=EVIL, scope=EVIL, member=EVIL), EVIL)
    past.trial(msgspec.structs.replace(hypothesis, name="other"), 0.3)
    shown = contents(past)
    page = document(msgspec.structs.replace(shown, host=HostState(known_good=False, lines=(EVIL,)), remarks=(EVIL,)))
    outline(page)
    assert page.count("&lt;script&gt;") > 10
    assert page.encode()
    assert "\x1b" not in page
    assert "<script" not in draw_overview(past.state, config)
    parse(draw_overview(past.state, config))


def test_a_hundred_trials_stay_a_file_one_can_send(config: LabConfig) -> None:
    past = History(config)
    past.baseline()
    past.trial(flags("first", ("-t", "4")), 0.2)
    state = past.state
    one = state.trials["t0001"]
    many = {f"t{n:04d}": msgspec.structs.replace(one, id=f"t{n:04d}") for n in range(1, 101)}
    page = document(msgspec.structs.replace(contents(past), state=msgspec.structs.replace(state, trials=many)))
    assert outline(page).tags["article"] == 100
    assert len(page) < 2_000_000


@pytest.mark.parametrize(("low", "middle", "high"), [(1.7, 2.0, 2.4), (0.0004, 0.001, 0.0016), (-0.999, -0.9, -0.5)])
def test_huge_and_tiny_effects_are_drawn_inside_the_figure(
    config: LabConfig, low: float, middle: float, high: float
) -> None:
    past = History(config)
    past.baseline()
    name = past.begin(flags("some", ("-t", "4")))
    past.measure(name, middle, most=4)
    past.end(name, Verdict(decision="keep", reason="better", why="so", estimate=middle, low=low, high=high, pairs=2))
    page = document(contents(past))
    outline(page)
    assert "nan" not in page
    for text in re.findall(r'points="([^"]+)"', page):
        assert all(-10 <= float(x.split(",")[0]) <= 970 for x in text.split())


def test_the_overview_names_every_trial_and_is_well_formed(config: LabConfig) -> None:
    past = rich(config)
    drawn = parse(draw_overview(past.state, config))
    told = drawn.findtext("{http://www.w3.org/2000/svg}desc") or ""
    for trial in past.state.trials.values():
        assert f"{trial.id} {trial.hypothesis.name}" in told
    assert "No trial yet" in ET.tostring(parse(draw_overview(LabState(), config)), encoding="unicode")


def test_curves_come_from_measured_requests_of_launches_that_count(config: LabConfig, tmp_path: Path) -> None:
    artifacts = ArtifactFolder(tmp_path / "artifacts")
    past = rich(config, artifacts)
    trial = past.state.trials["t0005"]
    found = read_distributions(trial, artifacts, config.workloads[0])
    wanted = [launch.arm for launch in trial.launches if counted(trial, launch)]
    assert (found.passes, found.missing) == (len(wanted), 0)
    assert len(wanted) == len(trial.launches) - 2
    assert {one.arm: one.count for one in found.ttft} == {arm: 30 * wanted.count(arm) for arm in wanted}
    assert all(list(one.values) == sorted(one.values) and one.shares[-1] == 1 for one in (*found.ttft, *found.itl))


def test_samples_that_are_gone_are_said_to_be_gone(config: LabConfig, tmp_path: Path) -> None:
    artifacts = ArtifactFolder(tmp_path / "artifacts")
    past = rich(config, artifacts)
    trial = past.state.trials["t0005"]
    artifacts.path(trial.launches[-1].runs[0].samples).unlink()
    assert read_distributions(trial, artifacts, config.workloads[0]).missing == 1
    assert "The samples of 1 pass are missing" in article(document(contents(past, artifacts=artifacts)), "t0005")
