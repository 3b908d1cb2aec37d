"""Numbers, times and names as a reader wants them."""

from datetime import UTC, datetime

MINUS = "\N{MINUS SIGN}"
TWICE = 1.0
FINE = 0.001
MANY = 1000.0
UNITS = (("_tok_s", " tok/s"), ("request_s", " req/s"), ("goodput_s", " req/s"), ("_ms", " ms"), ("_mb", " MB"))
ACRONYMS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E latency", "cpu": "CPU"}
MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


def percent(value: float | None) -> str:
    """A ratio minus one as a signed percentage, from a doubling on as a factor; a dash for None."""
    if value is None:
        return "–"
    if value >= TWICE:
        return f"×{1 + value:.2f}"
    shown = f"{value:+.2%}" if abs(value) < FINE else f"{value:+.1%}"
    return shown.replace("-", MINUS) if float(shown.rstrip("%")) else shown.lstrip("+-")


def span(low: float | None, high: float | None) -> str:
    """An interval in brackets; empty if there is none."""
    return "" if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def number(value: float) -> str:
    """A measured value with as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= MANY else f"{value:.4g}"


def quantity(value: float, metric: str) -> str:
    """A measured value with the unit that the metric's name implies."""
    return number(value) + unit(metric)


def unit(metric: str) -> str:
    """Unit of a metric with a space before it, read from its name; empty if the name implies none."""
    return next((shown for ending, shown in UNITS if metric.endswith(ending)), "")


def title(metric: str) -> str:
    """A metric's name in words, without its unit: ``ttft_p99_ms`` is ``TTFT p99``."""
    bare = next((metric.removesuffix(ending) for ending, _ in UNITS if metric.endswith(ending)), metric)
    words = [ACRONYMS.get(word, word) for word in (bare or metric).split("_") if word]
    if metric.endswith("_tok_s"):
        words.append("throughput")
    if metric.endswith(("request_s", "goodput_s")):
        words = ["goodput" if metric.startswith("goodput") else "requests"]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def moment(unix: float) -> str:
    """A Unix time as a date and a time of day, in UTC."""
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """A length of time: ``48 s``, ``12 min``, ``3.4 h``, ``2.1 days``."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h" if seconds < 2 * DAY else f"{seconds / DAY:.1f} days"


def count(amount: int, noun: str) -> str:
    """A number with its noun, in the plural where that is due."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith(("ch", "s")) else "s")
    return f"{amount} {noun if amount == 1 else plural}"


def clip(text: str, most: int) -> str:
    """Text cut to at most so many characters, with an ellipsis where something is missing."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
