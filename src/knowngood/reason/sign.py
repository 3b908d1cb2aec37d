"""Whether the sign of a change shows in what a running server said."""

import re
from collections.abc import Mapping

from knowngood.model.hypothesis import Sign


def find_sign(sign: Sign, pages: Mapping[str, str], log: str) -> str:
    """Look for a sign.

    Args:
        sign: What to look for.
        pages: Endpoint path to body.
        log: The server's log.

    Returns:
        What was found, in words; empty if the sign does not show.
    """
    if sign.log:
        line = next((line for line in log.splitlines() if re.search(sign.log, line)), "")
        return f"the log says: {line.strip()}" if line else ""
    for path, body in pages.items():
        value = read_metric(body, sign.metric)
        if value is not None and value > sign.above:
            return f"{path} says {sign.metric} is {value:g}"
    return ""


def read_metric(body: str, name: str) -> float | None:
    """A metric's value, summed over its labels; None if the page has no such metric.

    Source: Prometheus text exposition format 0.0.4.
    """
    sample = re.compile(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)", re.MULTILINE)
    values = [float(value) for value in sample.findall(body)]
    return sum(values) if values else None
