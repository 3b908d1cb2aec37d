"""What the pages show of `knowngood explain` is what it prints."""

import re
from pathlib import Path

import click
import pytest

from knowngood.app import explain_step
from knowngood.faces.explanation import ExplainView, explanation_text

ROOT = Path(__file__).parents[2]
FOUNDING = ROOT / "tests" / "data" / "steptime" / "founding.toml"


def printed() -> list[str]:
    facts, explanation = explain_step(FOUNDING, [])
    return click.unstyle(explanation_text(ExplainView(facts=facts, explanation=explanation))).splitlines()


@pytest.mark.parametrize("name", ["explanation/steptime.md", "how-to/speculation.md"])
def test_output_in_the_pages_is_printed(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    shown = [line for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) for line in block.splitlines() if line]
    assert len(shown) > 5
    assert [line for line in shown if line not in printed()] == []


def test_the_facts_in_the_page_are_those_of_the_test() -> None:
    page = (ROOT / "docs" / "explanation" / "steptime.md").read_text(encoding="utf-8")
    block = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    assert block[1] == FOUNDING.read_text(encoding="utf-8")
