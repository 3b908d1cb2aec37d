"""Axes, words and markup of the report."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.faces.report.changes import members
from knowngood.faces.report.markup import Markup, element, render
from knowngood.faces.report.scale import bent_effects, effects, linear, logarithmic
from knowngood.faces.report.words import count, duration, number, percent, quantity, title
from knowngood.model.change import ChangeSet, Pin, Setting

VALUES = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-6)
LNS = st.lists(st.floats(-5, 7), max_size=20)


@given(st.lists(VALUES, min_size=1, max_size=20))
def test_a_linear_axis_shows_all_values_with_ticks_in_order(values: list[float]) -> None:
    axis = linear(values, start=0, end=100)
    assert all(0 < axis.at(value) < 100 for value in values)
    assert 1 <= len(axis.ticks) <= 7
    assert [tick.value for tick in axis.ticks] == sorted(tick.value for tick in axis.ticks)
    assert len({tick.label for tick in axis.ticks}) == len(axis.ticks)


@given(LNS)
def test_effect_axes_show_zero_and_label_it(lns: list[float]) -> None:
    for axis in (effects(lns, start=0, end=400), bent_effects(lns, start=0, end=400)):
        assert all(axis.holds(value) for value in (0.0, *lns))
        assert "0" in {tick.label for tick in axis.ticks}
        places = [axis.at(tick.value) for tick in axis.ticks]
        assert places == sorted(places)
        assert len({tick.label for tick in axis.ticks}) == len(axis.ticks)


@given(st.floats(1e-3, 1e6), st.floats(1, 1e6))
def test_a_logarithmic_axis_spends_equal_room_on_equal_ratios(low: float, ratio: float) -> None:
    axis = logarithmic(low, low * ratio, start=0, end=400)
    middle = math.sqrt(axis.low * axis.high)
    assert axis.at(middle) == pytest.approx(200)
    assert axis.ticks


def test_an_axis_can_run_upwards() -> None:
    axis = linear([1, 2], start=100, end=0)
    assert axis.at(2) < axis.at(1)


def test_tick_labels_have_the_digits_they_need() -> None:
    assert [tick.label for tick in linear([0.0, 1.0], start=0, end=1, most=5).ticks] == [
        "0.00",
        "0.25",
        "0.50",
        "0.75",
        "1.00",
    ]
    assert "2.5" in {tick.label for tick in linear([0, 10], start=0, end=1, most=5).ticks}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.042, "+4.2%"), (-0.31, "−31.0%"), (0.0004, "+0.04%"), (0.0, "0.00%"), (1.5, "×2.50"), (None, "–")],
)
def test_a_ratio_is_written_as_a_person_would(value: float | None, text: str) -> None:
    assert percent(value) == text


def test_figures_carry_units_and_no_false_digits() -> None:
    assert number(1234.5) == "1,234"
    assert quantity(412.345, "output_tok_s") == "412.3 tok/s"
    assert quantity(3.0, "my_score") == "3"
    assert title("ttft_p99_ms") == "TTFT p99"
    assert title("output_tok_s") == "Output throughput"
    assert title("goodput_s") == "Goodput"
    assert count(1, "launch") == "1 launch"
    assert count(2, "launch") == "2 launches"
    assert duration(59) == "59 s"
    assert duration(3600) == "60 min"


@given(st.text())
def test_text_never_becomes_markup(text: str) -> None:
    shown = element("p", text, title=text)
    inside = shown.removeprefix('<p title="').removesuffix("</p>")
    assert "<" not in inside
    assert inside.count(">") == 1
    assert inside.count('"') == 1
    assert shown.encode()


def test_markup_is_not_escaped_twice() -> None:
    inner = element("b", "a & b")
    assert element("p", inner, None, ["c", Markup("<hr>")]) == "<p><b>a &amp; b</b>c<hr></p>"
    assert render("\x1b[31mred\x1b[0m\x00") == "red"


def test_attributes_are_written_as_html_wants_them() -> None:
    assert (
        element("line", x1=1.04, stroke_width=2.0, class_="a", id=None) == '<line x1="1" stroke-width="2" class="a"/>'
    )


def test_pins_and_settings_are_shown_to_the_letter() -> None:
    clock = Setting(name="clock", value="1500", read=("q",), write=("tool", "--set", "{value}"))
    shown = render(
        members(ChangeSet(members=(Pin(requirement="a==1"), clock, Setting(name="vm.swappiness", value="1"))))
    )
    assert "pin a==1" in shown
    assert "without what it requires" in shown
    assert "set by tool --set {value}" in shown
    assert "setting vm.swappiness=1" in shown
