"""How to read the report, and how to get the same numbers."""

import shlex

import msgspec

from knowngood.faces.report.chips import code, facts, folded
from knowngood.faces.report.contents import Contents
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.words import percent
from knowngood.model.launch import LaunchSpec
from knowngood.reason.profile import find_profile


def reading_chapter(contents: Contents) -> Markup:
    """The rule in one paragraph."""
    config = contents.config
    profile = find_profile(config.verdict.profile)
    text = (
        "Candidate and baseline are launched in turn (C B, B C, …), so that a slow drift of the machine cancels; runs "
        "inside one launch are not independent, so a launch counts once. Each pair gives one difference. After every "
        f"launch the rule asks two things. Is it proven that the effect is above {percent(config.worthwhile / 4)}, a "
        f"quarter of what is worthwhile ({percent(config.worthwhile)})? Then keep: the chance of keeping a change that "
        f"is worth no more than that is at most {profile.alpha:.0%} a trial, however often one looks. Is a keep now "
        f"unlikely (below {profile.eta:.0%})? Then stop: revert if the interval rules a worthwhile gain out, else "
        "inconclusive. A guard that fails reverts. A trial is void if the server did not run, a member did not take "
        "effect, or the foreign load stayed uneven: then there is no number to report. Everything but a keep left the "
        "host as it was."
    )
    return element("section", element("h2", "How to read this"), element("p", text, class_="prose"), id="reading")


def reproduce_chapter(contents: Contents) -> Markup:
    """The launch, the workloads and the versions behind the numbers."""
    baseline, config = contents.state.baseline, contents.config
    spec = baseline.spec if baseline else config.spec
    about: list[tuple[str, Node]] = [("knowngood", contents.version), ("Lab file", code(config_summary(contents)))]
    if baseline:
        about += [(name.replace("_", " "), value) for name, value in baseline.facts.items()]
        about += [(f"SHA-256 of {path}", code(digest or "no file")) for path, digest in baseline.files.items()]
    workloads = [[element("b", one.name), " ", code(msgspec.json.encode(one).decode())] for one in config.workloads]
    return element(
        "section",
        element("h2", "How to reproduce"),
        element("p", "Start the known-good server:"),
        element("pre", command(spec), class_="command"),
        element(
            "p",
            code("knowngood serve"),
            " does that; ",
            code("knowngood export"),
            " writes it down, file changes included; ",
            code("knowngood baseline"),
            " measures it anew; ",
            code("knowngood try FILE"),
            " repeats a trial.",
        ),
        facts(about),
        folded("Workloads", element("ul", *(element("li", one) for one in workloads), class_="plain wrap")),
        id="reproduce",
    )


def config_summary(contents: Contents) -> str:
    """What decides a verdict, in one line."""
    config = contents.config
    limits = {**config.guards, **({} if config.memory is None else {"memory": config.memory})}
    guards = ", ".join(f"{name} {percent(limit)}" for name, limit in limits.items())
    return (
        f"{config.objective.metric} ({config.direction} is better), worthwhile {percent(config.worthwhile)}, "
        f"profile {config.verdict.profile}, guards: {guards or 'none'}, answers {config.answers_mode}"
    )


def command(spec: LaunchSpec) -> str:
    """A launch as a shell would take it, one flag a line."""
    lines = [f"cd {shlex.quote(spec.cwd)}"] if spec.cwd else []
    lines += [f"unset {name}" for name in spec.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in spec.env.items()]
    words: list[str] = []
    for word in spec.argv:
        if words and word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            words.append("\\\n  " + shlex.quote(word))
        else:
            words.append(shlex.quote(word))
    return "\n".join([*lines, " ".join(words)])
