"""Prompts whose continuation repeats what stands in them, as code and data do.

Measured on SmolLM2-135M-Instruct Q4_1, greedy, four prompts of each shape with 96 tokens out: the model goes on with
the rows, and n-gram speculation (``ngram-simple``) had 352 to 364 of the 384 tokens drafted, all of them accepted. A
list of equal rows of digits, tried too, is not continued: the model closes it.
"""

import json
from collections.abc import Sequence

PLACES = (
    *("oslo", "lima", "cairo", "quito", "hanoi", "accra", "dakar", "sofia", "riga", "minsk", "kyiv", "tunis"),
    *("paris", "vienna", "prague", "dublin", "lisbon", "madrid", "athens", "ankara", "tehran", "riyadh", "muscat"),
    *("doha", "amman", "beirut", "nairobi", "lusaka", "harare", "maputo", "luanda", "bamako", "niamey", "rabat"),
)
OTHER_PLACES = (
    *("bern", "rome", "delhi", "seoul", "tokyo", "perth", "lagos", "havana", "milan", "porto"),
    *("turin", "split", "basel", "ghent", "malmo", "turku", "bergen", "cork", "leeds", "bristol"),
)
"""For the answers guard: a row that was written before it is measured would come out of the prompt cache."""

ROWS = 4
"""Rows that stand in a prompt; n-gram drafts need four, and two make a quick demo quick."""
FEW_ROWS = 2

SHAPES: tuple[tuple[str, str], ...] = (
    ('{{"city": "{place}", "unit": "celsius", "active": true}},\n', '{{"city":'),
    ("- city: {place}\n  unit: celsius\n  active: true\n", "- city:"),
    ("INSERT INTO reading (city, value) VALUES ('{place}', 0);\n", ""),
    ('<tr><td class="{place}">0</td><td>0</td><td>0</td></tr>\n', ""),
)
"""Row, and the begin of the next one; JSON, YAML, SQL, HTML. A text that ends inside a row is continued most surely."""


def prompts(places: Sequence[str], *, rows: int = ROWS) -> tuple[str, ...]:
    """One prompt a place and shape, neither twice in a row: so many that no measured run has to repeat one."""
    turns = [
        (place, SHAPES[(at + turn) % len(SHAPES)]) for turn in range(len(SHAPES)) for at, place in enumerate(places)
    ]
    return tuple((row * rows + begin).format(place=place) for place, (row, begin) in turns)


def prompt_file(places: Sequence[str], *, rows: int = ROWS) -> str:
    """The prompts as JSON lines."""
    return "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts(places, rows=rows))
