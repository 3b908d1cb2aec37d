"""The founding case, entered as numbers: its arithmetic, what cannot be true in it, and what to try first."""

from pathlib import Path

import msgspec
import pytest

from knowngood.config.facts import load_facts
from knowngood.model.change import Edit, Env, Flag
from knowngood.model.steptime import Facts, WhatIf
from knowngood.readers.knobs import catalogue
from knowngood.reason.steptime.arithmetic import marginal_ns_per_byte, work_out
from knowngood.reason.steptime.explain import Explanation, explain
from knowngood.reason.steptime.rungs import ladder

FILE = Path(__file__).parents[3] / "data" / "steptime" / "founding.toml"


@pytest.fixture
def facts() -> Facts:
    return load_facts(FILE)


@pytest.fixture
def said(facts: Facts) -> Explanation:
    return explain(facts, catalogue())


def change(facts: Facts, table: str, **values: object) -> Facts:
    return msgspec.structs.replace(facts, **{table: msgspec.structs.replace(getattr(facts, table), **values)})


def test_arithmetic(facts: Facts) -> None:
    found = work_out(facts)
    assert found.collectives == 122
    assert found.verify_tokens == 3
    assert found.drafts == 2
    assert found.base_ms == pytest.approx(12.2, abs=0.05)
    assert found.allreduce_us == pytest.approx(197, abs=0.5)
    assert found.compute_ms == pytest.approx(6)
    assert found.base_allreduce_us == pytest.approx(51, abs=0.5)
    assert found.tokens == pytest.approx((1.80, 1.98))
    assert marginal_ns_per_byte(found) == pytest.approx(5.1, abs=0.05)


@pytest.mark.parametrize(
    ("us", "saved", "rate", "base"),
    [(30, 20.4, 170, 104), (50, 17.9, 138, 83), (100, 11.8, 96, 82), (25, 20.9, 180, 110)],
)
def test_faster_all_reduce(facts: Facts, us: float, saved: float, rate: float, base: float) -> None:
    supposed = explain(facts, catalogue(), what_if=WhatIf(allreduce_us=us)).supposed
    assert supposed is not None
    assert supposed.saved_ms == pytest.approx(saved, abs=0.06)
    assert supposed.tok_s.low <= rate <= supposed.tok_s.high
    assert supposed.base_tok_s == pytest.approx(base, abs=0.6)
    assert supposed.pays


def test_138_tokens_a_second_with_the_acceptance_and_the_drafting_of_the_table(facts: Facts) -> None:
    told = change(facts, "speculation", tokens_per_verify=1.95, draft_ms=2.0)
    supposed = explain(told, catalogue(), what_if=WhatIf(allreduce_us=50)).supposed
    assert supposed is not None
    assert supposed.tok_s.low == supposed.tok_s.high == pytest.approx(138, abs=0.5)


def test_budget_adds_up_and_names_the_cost(said: Explanation) -> None:
    assert said.budget is not None
    assert sum(line.ms for line in said.budget.lines) == pytest.approx(said.budget.ms)
    assert sum(line.share for line in said.budget.lines) == pytest.approx(1)
    assert said.budget.principal is not None
    assert said.budget.principal.kind == "waiting"
    assert said.budget.principal.ms == pytest.approx(20.7, abs=0.1)
    assert said.budget.bound == pytest.approx(31.5 / (31.5 - 20.72), abs=0.01)


def test_speculation_does_not_pay_here(said: Explanation) -> None:
    shown = said.economics
    assert shown is not None
    assert shown.speedup.high < 1
    assert shown.break_even[0].tokens == pytest.approx(2.46, abs=0.005)
    assert shown.deeper.acceptance == pytest.approx(0.68, abs=0.005)


def test_contradictions_of_the_story(said: Explanation) -> None:
    impossible = [one.says for one in said.contradictions if one.kind == "impossible"]
    assert impossible[0] == (
        "these 122 collectives cannot cost 200 µs each: that is 24.4 ms, and your baseline step has only 12.2 ms"
    )
    assert impossible[1].startswith("the GPUs cannot idle for 70% of the step: collectives run for 24.0 of 30.0 ms")
    assert len(impossible) == 2
    suspicious = [one for one in said.contradictions if one.kind == "suspicious"]
    assert "3.0 times as large takes 3.9 times as long (51 to 197 µs)" in suspicious[0].says
    assert suspicious[1].means == "about 17 ms of the step have a cause that can be found"


def test_without_the_claims_nothing_is_impossible(facts: Facts) -> None:
    calm = change(facts, "claims", allreduce_floor_us=None, idle_share=None)
    assert {one.kind for one in explain(calm, catalogue()).contradictions} == {"suspicious"}


def test_a_healthy_machine_has_no_contradiction(facts: Facts) -> None:
    healthy = change(facts, "claims", allreduce_floor_us=None, idle_share=None)
    healthy = change(healthy, "speculation", verify_ms=13.0, collective_ms=7.0, tok_s=140)
    assert explain(healthy, catalogue()).contradictions == ()


@pytest.mark.parametrize(
    ("table", "values", "says"),
    [
        ("speculation", {"collective_ms": 31.0}, "collectives take 31.0 ms of a step of 30.0 ms"),
        ("speculation", {"allreduce_us": 300.0}, "122 × 300 µs are 36.6 ms, not 24 ms"),
        ("baseline", {"collective_ms": 13.0}, "collectives take 13.0 ms of a baseline step of 12.2 ms"),
        ("baseline", {"step_ms": 20.0}, "82 tok/s are 12.2 ms a token"),
        ("speculation", {"tok_s": 130}, "a round of 2 drafts yields between 1 and 3 tokens, not 3.90"),
        ("claims", {"tokens_per_verify": 3.4}, "a round of 2 drafts yields between 1 and 3 tokens, not 3.40"),
        ("speculation", {"acceptance": (0.6, 0.7)}, "acceptance 0.6, 0.7 rises"),
        ("speculation", {"acceptance": (0.9, 0.85)}, "acceptance says 2.75"),
        ("speculation", {"message_bytes": 50_000.0}, "a message of 50000 bytes holds 3.49 tokens"),
        ("speculation", {"drafts": 4}, "holds 3 tokens, and 4 drafts make a verify of 5"),
    ],
)
def test_each_contradiction_is_seen(facts: Facts, table: str, values: dict[str, object], says: str) -> None:
    seen = explain(change(facts, table, **values), catalogue()).contradictions
    assert any(says in one.says for one in seen), [one.says for one in seen]


def test_a_step_shorter_than_its_weights_is_impossible(facts: Facts) -> None:
    told = change(facts, "model", always_params=1e12, weight_bits=4.0)
    told = change(told, "hardware", memory_gb_s=1800.0)
    assert any(
        "shorter than its weights take to read (34.7 ms)" in one.says
        for one in explain(told, catalogue()).contradictions
    )


def test_ladder_looks_first_and_edits_last(said: Explanation) -> None:
    ranks = [rung.rank for rung in said.ladder]
    assert ranks == sorted(ranks)
    assert [rung.name for rung in said.ladder][:4] == ["look-cuda-graph", "look-topology", "look-links", "look-waiting"]
    assert all(not rung.members and rung.command for rung in said.ladder if rung.rank < 2)
    assert said.ladder[-1].name == "widen-fusion-gate"
    assert not said.ladder[-1].members


def test_rungs_take_risk_and_proof_from_the_catalogue(said: Explanation) -> None:
    p2p = next(rung for rung in said.ladder if rung.name == "nccl-p2p-sys")
    assert any("wedged" in risk for risk in p2p.risk)
    assert any("via P2P" in proof for proof in p2p.proof)
    assert any("Must be equal on all ranks" in one for one in p2p.constraints)
    ipc = next(rung for rung in said.ladder if rung.name == "pcie-ipc")
    assert any(one.startswith("pcie_ipc requires world in {2,4,8}") for one in ipc.constraints)
    depth = next(rung for rung in said.ladder if rung.name == "draft-3")
    assert any("spec_topk == 1" in one for one in depth.constraints)


def test_every_variable_and_flag_of_the_ladder_is_in_the_catalogue() -> None:
    known = {knob.name for knob in catalogue().knobs}
    for engine, version in (("sglang", "0.5.9"), ("vllm", "0.33.0")):
        facts = load_facts(FILE, [f"server.engine={engine}", f'server.version="{version}"'])
        for rung in explain(facts, catalogue()).ladder:
            for member in rung.members:
                name = member.name if isinstance(member, Env) else member.flag if isinstance(member, Flag) else ""
                assert isinstance(member, Edit) or name in known or name.split()[0] == "--speculative-config", name


def test_predictions_stay_within_the_bound(facts: Facts, said: Explanation) -> None:
    assert said.budget is not None
    for rung in said.ladder:
        if rung.predicts is not None:
            low, high = rung.predicts
            assert -1 < low <= high <= said.budget.bound - 1 + 0.05
    found = work_out(facts)
    assert ladder(facts, found, said.budget, catalogue()) == said.ladder


def test_other_principal_costs_have_other_ladders(facts: Facts) -> None:
    idle = change(facts, "speculation", collective_ms=3.0, idle_share=0.7)
    idle = change(idle, "claims", allreduce_floor_us=None, idle_share=None)
    said = explain(idle, catalogue())
    assert said.budget is not None
    assert said.budget.principal is not None
    assert said.budget.principal.kind == "idle"
    names = {rung.name for rung in said.ladder}
    assert "less-host-work" in names
    assert "nccl-p2p-sys" not in names


def test_little_is_said_of_little() -> None:
    said = explain(Facts(), catalogue())
    assert said.budget is None
    assert said.ladder == ()
    assert said.contradictions == ()
    assert any("baseline.tok_s" in one for one in said.missing)


def test_a_rate_alone_is_a_budget_of_one_line() -> None:
    said = explain(load_facts(None, ["baseline.tok_s=50"]), catalogue())
    assert said.budget is not None
    assert [(line.kind, line.ms) for line in said.budget.lines] == [("kernels", 20.0)]
    assert said.economics is None
