from collections.abc import Iterator

import pytest

from knowngood.model.change import Change, Edit, Env, File, Flag, Patch
from knowngood.model.diagnosis import Diagnosis, LogRule
from knowngood.reason.diagnose import blame, diagnose

FULL = LogRule(
    cause="host_limits", pattern=r"disk full", component="disk", remedy="make room", example="disk full", flags=("-o",)
)
SLOW = LogRule(
    cause="slow_fallback", pattern=r"falling back", component="x", remedy="y", example="falling back", silent=True
)
RULES = (SLOW, FULL)


def test_the_first_line_that_a_rule_knows_is_the_cause() -> None:
    found = diagnose(["fine\n", "disk full on /a\r\n", "disk full on /b\n", "exit 1\n"], RULES)
    assert (found.cause, found.line, found.line_number) == ("host_limits", "disk full on /a", 2)
    assert (found.component, found.remedy, found.abstained) == ("disk", "make room", False)


def test_a_silent_line_gives_way_to_a_failure() -> None:
    assert diagnose(["falling back", "disk full"], RULES).cause == "host_limits"
    silent = diagnose(["falling back", "falling back again"], RULES)
    assert (silent.cause, silent.line_number) == ("slow_fallback", 1)
    assert silent.confidence < diagnose(["disk full"], RULES).confidence


@pytest.mark.parametrize(
    ("lines", "hint", "number"),
    [
        (["ready", "Error: a", "fatal: b", "bye"], "fatal: b", 3),
        (["ZeroDivisionError: x"], "ZeroDivisionError: x", 1),
        (["errors=0", "terror", "all is well"], "", 0),
        ([], "", 0),
    ],
)
def test_without_a_rule_it_abstains_and_quotes_the_last_error(lines: list[str], hint: str, number: int) -> None:
    found = diagnose(lines, RULES)
    assert (found.cause, found.abstained, found.confidence) == ("unknown", True, 0.0)
    assert (found.line, found.line_number) == (hint, number)


def test_it_stops_reading_at_the_cause() -> None:
    read: list[int] = []

    def lines() -> Iterator[str]:
        for number in range(10):
            read.append(number)
            yield "disk full" if number == 3 else "fine"

    diagnose(lines(), RULES)
    assert read == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("bad argument --fast", Flag(flag="--fast")),
        ("cannot open /srv/m.bin", Flag(flag="-m", value="/srv/m.bin")),
        ("NCCL_ALGO is not known", Env(name="NCCL_ALGO", value="x")),
        ("mod.py line 3: oops", Edit(path="/srv/mod.py", find="a", replace="b")),
        ("cannot parse /srv/c.json", File(path="/srv/c.json", content=b"")),
        ("/srv/pkg is broken", Patch(name="p", root="/srv/pkg", diff=b"")),
        ("disk full", Flag(flag="-o", value="1")),
    ],
)
def test_the_member_that_the_line_or_the_rule_names_is_blamed(line: str, change: Change) -> None:
    others = (Flag(flag="--fas"), Env(name="ALGO", value="1"), Flag(flag="-x", value="3"))
    found = Diagnosis(cause="x", line=line, line_number=1, flags=("-o",))
    alone = blame(found, (change,)).member
    assert alone
    assert blame(found, (*others, change)).member == alone
    assert not blame(found, others).member


def test_nobody_is_blamed_without_a_cause() -> None:
    found = Diagnosis(cause="unknown", line="--fast failed", line_number=1, abstained=True)
    assert blame(found, (Flag(flag="--fast"),)) == found
