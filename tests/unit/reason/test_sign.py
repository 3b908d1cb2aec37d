import pytest

from knowngood.model.hypothesis import Sign
from knowngood.reason.sign import find_sign, read_metric

METRICS = """\
# TYPE app:drafts_total counter
app:drafts_total{engine="0",model="a b"} 3.0
app:drafts_total{engine="1",model="a b"} 4.0
app:drafts_total_created 1.7e+09
app:gauge 0.0
"""


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        (Sign(log=r"workspace initialized for rank \d"), "the log says: INFO workspace initialized for rank 0"),
        (Sign(log="something else"), ""),
        (Sign(metric="app:drafts_total"), "/metrics says app:drafts_total is 7"),
        (Sign(metric="app:drafts_total", above=7), ""),
        (Sign(metric="app:gauge"), ""),
        (Sign(metric="app:none"), ""),
    ],
)
def test_signs(sign: Sign, expected: str) -> None:
    log = "start\n  INFO workspace initialized for rank 0\n"
    assert find_sign(sign, {"/version": "{}", "/metrics": METRICS}, log) == expected


def test_a_metric_is_summed_over_its_labels() -> None:
    assert read_metric(METRICS, "app:drafts_total") == 7
    assert read_metric(METRICS, "app:drafts") is None
