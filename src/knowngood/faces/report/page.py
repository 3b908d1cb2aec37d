"""The report as one HTML document that needs nothing beside itself."""

from importlib.resources import files

from knowngood.faces.report.contents import Contents
from knowngood.faces.report.headline import headline, waterfall_chapter
from knowngood.faces.report.knowledge import findings_chapter, plan_chapter
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.noise import noise_chapter
from knowngood.faces.report.overview import overview
from knowngood.faces.report.races import races_chapter
from knowngood.faces.report.reading import reading_chapter, reproduce_chapter
from knowngood.faces.report.trial import trial_article
from knowngood.faces.report.words import moment, title

CHAPTERS = (
    ("gains", "Kept gains"),
    ("trials", "Trials"),
    ("races", "Races"),
    ("noise", "Noise"),
    ("plan", "Plan"),
    ("findings", "Findings"),
    ("reading", "How to read this"),
    ("reproduce", "How to reproduce"),
)


def style(*names: str) -> str:
    """Style sheets of this package, one after the other."""
    here = files("knowngood.faces.report")
    return "\n".join(here.joinpath(name).read_text(encoding="utf-8") for name in names)


def document(contents: Contents) -> str:
    """The whole page.

    Args:
        contents: What it shows.

    Returns:
        An HTML document without any outside reference.
    """
    lab = contents.config.root.name or "lab"
    gains = waterfall_chapter(contents)
    when = f"as of {moment(contents.state.at)}" if contents.state.at else "nothing measured yet"
    trials = contents.state.trials.values()
    body = element(
        "main",
        element(
            "header",
            element("p", f"knowngood report, {when}", class_="over"),
            element("h1", f"{lab}: {title(contents.metric)}"),
            navigation(without={name for name, has in (("gains", gains), ("races", contents.state.races)) if not has}),
        ),
        element("p", " ".join(contents.remarks), class_="remark") if contents.remarks else None,
        headline(contents),
        gains,
        overview(contents),
        races_chapter(contents),
        element("section", *(trial_article(contents, trial) for trial in trials), aria_label="Each trial")
        if trials
        else None,
        noise_chapter(contents),
        plan_chapter(contents),
        findings_chapter(contents),
        reading_chapter(contents),
        reproduce_chapter(contents),
    )
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark"><meta name="generator" content="knowngood">'),
        element("title", f"{lab}: knowngood report"),
        element("style", Markup(style("figure.css", "report.css"))),
    )
    return f"<!doctype html>\n{element('html', head, element('body', body), lang='en')}\n"


def navigation(*, without: set[str]) -> Markup:
    """Links to the chapters, those left out that are not there."""
    links: list[Node] = [element("a", name, href=f"#{target}") for target, name in CHAPTERS if target not in without]
    return element("nav", *links, aria_label="Chapters")
