"""How steady the machine is: A/A differences, their spread, and what can be detected with them."""

import math

from knowngood.faces.report.chips import captioned, facts, folded, table
from knowngood.faces.report.contents import Contents
from knowngood.faces.report.history import noise_spread
from knowngood.faces.report.marks import across, box, dot, figure, line
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.scale import effects
from knowngood.faces.report.words import count, moment, percent, quantity, title
from knowngood.reason.load import foreign_cores
from knowngood.reason.noise import noise_floor
from knowngood.reason.power import mde
from knowngood.reason.profile import PROFILES
from knowngood.reason.records import BaselineRun

WIDTH, LANE = 960.0, 44.0
EDGE = 30.0
REACH = 7.0
"""Pixels between two dots of one place."""


def noise_chapter(contents: Contents) -> Markup:
    """A/A values, their spread, the smallest detectable effect."""
    state = contents.state
    inside: list[Node] = []
    if state.noise:
        spread = noise_spread(state)
        about = (
            f"Two launches of the same thing differ by {math.expm1(spread):.1%} (one standard deviation, "
            f"{count(len(state.noise), 'A/A pair')}): the shaded band."
        )
        inside.append(
            captioned(differences(state.noise, spread), "Differences between launches of the same thing", about)
        )
        inside.append(facts(detectable(contents), kind="key"))
    else:
        inside.append(element("p", "Nothing is known yet: knowngood baseline measures it.", class_="muted"))
    inside += [baseline_run(run, contents.metric) for run in state.runs.values()]
    return element("section", element("h2", "Noise"), *inside, id="noise")


def differences(noise: tuple[float, ...], spread: float) -> Markup:
    """A strip of all A/A differences, those at one place above one another."""
    axis = effects([*noise, spread, -spread], start=EDGE, end=WIDTH - EDGE)
    ground = 6 + LANE
    marks: list[Node] = [box(axis.at(-spread), 6, axis.at(spread) - axis.at(-spread), LANE, "band")]
    marks += [*across(axis, top=6, bottom=ground), line((axis.at(0), 6), (axis.at(0), ground), "zero")]
    placed: list[tuple[float, float]] = []
    for value in sorted(noise, key=abs):
        x, y = axis.at(value), ground - 8
        while any(abs(x - left) < REACH and abs(y - up) < REACH for left, up in placed) and y > 6 + REACH:
            y -= REACH
        placed.append((x, y))
    marks += [dot(place, 3.6, "base") for place in placed]
    return figure(
        *marks,
        name="noise-strip",
        width=WIDTH,
        height=ground + 22,
        title="A/A differences",
        told=", ".join(percent(math.expm1(value)) for value in noise),
    )


def detectable(contents: Contents) -> list[tuple[str, Node]]:
    """Smallest effect that each profile keeps with 80 % probability."""
    floor = noise_floor(contents.state.noise)
    used = contents.config.verdict.profile
    return [
        (
            f"MDE, {profile.name}" + (" (in use)" if profile.name == used else ""),
            [
                element("strong", percent(mde(profile, floor, contents.config.worthwhile))),
                element("small", f"up to {count(profile.pairs, 'pair')}"),
            ],
        )
        for profile in PROFILES.values()
    ]


def baseline_run(run: BaselineRun, metric: str) -> Markup:
    """One measuring of a baseline."""
    ended = (
        "" if run.ended_at is not None else f", {len(run.launches)} of {run.planned} launches: it runs, or was cut off"
    )
    rows: list[list[Node]] = [
        [
            str(launch.index + 1),
            str(launch.pair + 1),
            quantity(launch.value, metric),
            f"{launch.ready_s:.1f} s",
            f"{foreign_cores(launch):.2f}",
        ]
        for launch in run.launches
    ]
    head = ("#Launch", "#Pair", f"#{title(metric)}", "#Ready after", "#Foreign cores")
    what = f"{run.id}: baseline {run.baseline.version}, {moment(run.started_at)}{ended}"
    return folded(what, table(head, rows) if rows else element("p", "No launch yet.", class_="muted"))
