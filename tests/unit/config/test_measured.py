"""Files of runs made elsewhere: both formats say the same, and a wrong row is named by line and column."""

import json

import pytest

from knowngood.config.measured import read_measured
from knowngood.errors import UsageError
from knowngood.model.measured import Measured

HEAD = "arm,launch,run,metric,value,time\n"
RUN = Measured(arm="baseline", launch="b1", run="1", metric="tok_s", value=101.5, at=12.0)


def test_csv_and_json_lines_say_the_same() -> None:
    row = {"arm": "baseline", "launch": "b1", "run": 1, "metric": "tok_s", "value": 101.5, "time": 12}
    assert read_measured(HEAD + "baseline,b1,1,tok_s,101.5,12\n", name="x").runs == (RUN,)
    assert read_measured("\n" + json.dumps(row) + "\n", name="x").runs == (RUN,)


def test_a_spreadsheets_file_is_read() -> None:
    text = (
        "\ufeffTime; Arm".replace(";", ",")
        + ", LAUNCH,run,metric,value,note\r\n12,Baseline,b1,1,tok_s,101.5,warm\r\n\r\n"
    )
    offer = read_measured(text, name="x")
    assert offer.runs == (RUN,)
    assert offer.unread == ("note",)


def test_dates_are_seconds() -> None:
    text = HEAD + "baseline,1,,m,1,2026-01-31T14:05:00Z\ncandidate,1,,m,1,2026-01-31T15:05:30+01:00\n"
    one, other = read_measured(text, name="x").runs
    assert one.at is not None
    assert other.at is not None
    assert other.at - one.at == 30


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("control,1,1,m,1,0", "x, line 2, column arm: 'control' is none"),
        ("baseline,1,1,m,1,0\nbaseline,2,1,m,abc,0", "x, line 3, column value: 'abc' is not a number above 0"),
        ("baseline,1,1,m,0,0", "x, line 2, column value: '0' is not a number above 0"),
        ("baseline,1,1,m,nan,0", "x, line 2, column value: 'nan' is not a number above 0"),
        ("baseline,1,1,m,,0", "x, line 2, column value: '' is not a number above 0"),
        ("baseline,1,1,m", "x, line 2, column value: '' is not a number above 0"),
        ("baseline,1,1,,1,0", "x, line 2, column metric: it is empty"),
        ("baseline,1,1,m,1,noon", "x, line 2, column time: 'noon' is no time"),
        (
            "baseline,1,1,m,1,0\nbaseline,2,1,m,1,2026-01-31T14:05:00Z",
            "x, line 3, column time: '2026-01-31T14:05:00Z' is a date with its zone, those before are seconds",
        ),
        ("baseline,1,1,m,1,0,9", "x, line 2: 7 cells, and the header has 6 columns"),
        ('baseline,1,1,"m,1,0', "x, line 2: not CSV"),
        (
            "baseline,1,1,m,1,0\n\nbaseline,1,1,m,2,5",
            "x, line 4: m of baseline launch 1, run 1 stands in line 2, too",
        ),
        ("", "x has no runs"),
    ],
)
def test_a_wrong_row_is_named(rows: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_measured(HEAD + rows + "\n", name="x")
    assert caught.value.message.startswith(says)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arm,metric\nbaseline,m\n", "x has no column 'value', but arm, metric"),
        ("arm,metric,value,tiem\nbaseline,m,1,2\n", "x has an unknown column 'tiem'"),
        ("arm,arm,metric,value\nbaseline,baseline,m,1\n", "x, line 1: two columns are called 'arm'"),
        ('{"arm": "baseline", "metric": "m", "value": 1}\n[1]\n', "x, line 2: not a JSON object"),
        ('{"arm": "baseline", "metric": "m", "value": 1}\n{"arm"\n', "x, line 2: not JSON"),
        ('{"arm": "baseline", "metric": "m", "value": true}\n', "x, line 1, column value: True is not a number"),
        ('{"arm": "baseline", "metric": "m", "value": [1]}\n', "x, line 1, column value: [1] is not a number"),
        ("", "x has no runs"),
    ],
)
def test_a_wrong_file_is_told(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_measured(text, name="x")
    assert caught.value.message.startswith(says)


def test_launch_and_time_may_be_missing_here() -> None:
    (run,) = read_measured("arm,metric,value\ncandidate,m,2\n", name="x").runs
    assert (run.launch, run.run, run.at) == ("", "", None)
