"""Rule files: those of the package are held against their own lines; a lab's are, too, and errors say where."""

from pathlib import Path

import pytest

from knowngood.config.rules import FOLDER, GENERAL, lab_rules, line_complaints, shipped_layers, shipped_rules
from knowngood.errors import UsageError
from knowngood.model.diagnosis import LogRule
from knowngood.reason.diagnose import diagnose

GOOD = """
component = "our proxy"

[[rule]]
id = "quota"
match = "quota of * exceeded"
cause = "host_limits"
remedy = "ask for more"
examples = ["proxy: quota of 12 exceeded"]
counterexamples = ["proxy: quota of 12"]
"""


def lab(tmp_path: Path, text: str) -> Path:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "proxy.toml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: rule.id)
def test_a_rule_finds_its_own_lines_and_not_those_that_look_alike(rule: LogRule) -> None:
    assert list(line_complaints(rule)) == []
    assert rule.counterexamples, "every rule has a line that it must not find"
    for line in rule.examples if rule.role != "stage" else ():
        assert diagnose([line.encode()], shipped_rules()).rule == rule.id, line


def test_explained_rules_exist() -> None:
    names = {rule.id for rule in shipped_rules()} | {rule.cause for rule in shipped_rules()}
    assert [rule.id for rule in shipped_rules() if not set(rule.explains) <= names] == []


def test_engines_come_before_what_they_stand_on() -> None:
    layers = shipped_layers()
    assert layers[-len(GENERAL) :] == GENERAL
    assert {rule.id.partition("/")[0] for rule in shipped_rules("nccl", "os")} == {"nccl", "os"}
    with pytest.raises(UsageError, match="nccll") as refused:
        shipped_rules("nccll")
    assert "nccl" in refused.value.hint


def test_a_lab_brings_its_own_rules_and_they_come_first(tmp_path: Path) -> None:
    (rule,) = lab_rules(lab(tmp_path, GOOD + 'explains = ["os/port-taken"]\n'))
    assert (rule.id, rule.component, rule.match) == ("proxy/quota", "our proxy", ("quota of * exceeded",))
    found = diagnose([b"x\nproxy: QUOTA of 12 exceeded, Errno 98\n"], (rule, *shipped_rules()))
    assert (found.rule, found.remedy) == ("proxy/quota", "ask for more")
    assert lab_rules(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("remedy", "remeddy", "remedy"),
        ('"host_limits"', '"host_limit"', "host_limits"),
        ('remedy = "ask for more"', "", "remedy is missing"),
        ('"quota of * exceeded"', '"*quota*"', "no whole word"),
        ('"quota of * exceeded"', '"*"', "is empty"),
        ('"quota of * exceeded"', '"quotas exceeded"', "does not find"),
        ('"quota of * exceeded"', '"quota of"', "the rule finds"),
        ('examples = ["proxy: quota of 12 exceeded"]', "examples = []", "examples is empty"),
        ('cause = "host_limits"', 'cause = "host_limits"\nhard = true', "never a dead end"),
        ('cause = "host_limits"', 'cause = "slow_fallback"\nhard = true\nretest = "later"', "scope is missing"),
        ('cause = "host_limits"', 'cause = "slow_fallback"\nhard = true\nscope = "here"', "retest is missing"),
        ('cause = "host_limits"', 'cause = "host_limits"\nconflict = true', "flags is missing"),
        ('cause = "host_limits"', 'role = "stage"', "phase is missing"),
        ('cause = "host_limits"', "", "cause is missing"),
        ('cause = "host_limits"', 'cause = "host_limits"\nrole = "culprit"', "culprit"),
        ("[[rule]]", "[rules]", "rule"),
        ("match", "= match", "no valid TOML"),
        ("counterexamples", '[[rule]]\nid = "quota"\nmatch = "abc"\ncause = "host_limits"\nremedy = "x"\nexamples = ["abc"]\ncounterexamples', "two rules"),
    ],
)  # fmt: skip
def test_an_error_names_file_rule_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        lab_rules(lab(tmp_path, GOOD.replace(old, new, 1)))
    assert "proxy.toml" in refused.value.message
    assert said in refused.value.message + refused.value.hint
    if "[[rule]]" in new or not new.startswith(("[", "=")):
        assert "[[rule]] quota" in refused.value.message
