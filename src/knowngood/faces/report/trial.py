"""One trial: what was believed, what came out, and the evidence for it."""

import math

from knowngood.faces.report import ecdf
from knowngood.faces.report.changes import members
from knowngood.faces.report.chips import captioned, chip, code, facts, folded, log, table
from knowngood.faces.report.contents import Contents
from knowngood.faces.report.curves import Curve, Distributions
from knowngood.faces.report.forest import interval, pair_forest
from knowngood.faces.report.history import (
    counted,
    earlier_baselines,
    guard_results,
    is_comparable,
    noise_spread,
    outcome,
    pair_differences,
    suspicion,
)
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.timeline import launch_timeline
from knowngood.faces.report.words import clip, count, duration, moment, percent, quantity, span, title, unit
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.evidence import Proof
from knowngood.reason.answers import passes
from knowngood.reason.load import foreign_cores
from knowngood.reason.records import Trial

LONGEST_LINE = 2000
HELD = {True: "yes", False: "no", None: "unknown"}


def trial_article(contents: Contents, trial: Trial) -> Markup:
    """Everything about one trial."""
    hypothesis = trial.hypothesis
    word = outcome(trial)
    return element(
        "article",
        element(
            "header",
            element("h3", element("span", trial.id, class_="id"), " ", hypothesis.name, " ", chip(word)),
            result(trial),
        ),
        element("p", hypothesis.claim, class_="claim"),
        element("p", element("b", "Because "), hypothesis.because) if hypothesis.because else None,
        members(hypothesis.changes),
        verdict(contents, trial),
        diagnosis(trial.diagnosis) if trial.diagnosis else None,
        drawings(contents, trial) if word != "void" else None,
        facts([*checks(contents, trial), ("Price", price(trial))], kind="checks"),
        launches(contents, trial) if word != "void" and trial.launches else None,
        class_=f"trial {word}",
        id=trial.id,
    )


def result(trial: Trial) -> Markup | None:
    """The effect in large letters; None where there must be no number."""
    found = trial.verdict
    if found is None or interval(found) is None:
        return None
    about = f"{span(found.low, found.high)} · {found.level:.0%} interval · {count(found.pairs, 'pair')}"
    return element("p", element("strong", percent(found.estimate)), element("span", about), class_="effect")


def verdict(contents: Contents, trial: Trial) -> Node:
    """The verdict's sentence, beside what was predicted and what could have been seen."""
    found, predicts = trial.verdict, trial.hypothesis.predicts
    lines: list[Node] = []
    if found is None:
        lines.append(
            element("p", "No verdict: it runs now, or was cut off and waits for knowngood recover.", class_="why")
        )
    else:
        taken_back = " The keep was taken back later." if trial.undone else ""
        head = "Void: " if found.decision == "void" else "Verdict: "
        lines.append(element("p", element("b", head), found.why or "no reason was recorded", taken_back, class_="why"))
    notes: list[str] = []
    is_void = found is not None and found.decision == "void"
    if predicts is not None and not is_void:
        notes.append(f"Predicted: {percent(predicts.low)} to {percent(predicts.high)} of {title(predicts.metric)}.")
    if trial.mde is not None and not is_void:
        notes.append(f"Detectable with 80% probability: {percent(trial.mde)} ({trial.profile}).")
    if not is_comparable(contents.state, trial):
        notes.append("Measured with an earlier workload or objective: its values are not comparable with today's.")
    return [*lines, element("p", " ".join(notes), class_="note") if notes else None]


def diagnosis(found: Diagnosis) -> Markup:
    """Root cause with the line that decided it."""
    where = f"log line {found.line_number}" if found.line_number else "log"
    kind = "hard: a dead end" if found.hard else "fixable"
    cause = "no cause found that could be stood for" if found.abstained else found.cause.replace("_", " ")
    about: list[tuple[str, Node]] = [("Cause", [element("b", cause), f" ({kind})" if not found.abstained else ""])]
    about += [("Component", found.component)] if found.component else []
    about += [("Guilty", code(found.member))] if found.member else []
    about += [("Scope", found.scope)] if found.scope else []
    about += [("Remedy", found.remedy)] if found.remedy else []
    quoted = [element("p", f"Decisive {where}:", class_="note"), log(clip(found.line.strip(), LONGEST_LINE))]
    return element("div", facts(about, kind="checks"), quoted if found.line.strip() else None, class_="diagnosis")


def drawings(contents: Contents, trial: Trial) -> Markup | None:
    """Pairs, launches over time, latency distributions; None if nothing was measured."""
    if not trial.launches:
        return None
    differences = pair_differences(trial, contents.config.direction)
    spread = noise_spread(contents.state)
    metric = contents.metric
    known = [launch.value for launch in earlier_baselines(contents.state, trial)]
    shown: list[Node] = []
    if differences or (trial.verdict and interval(trial.verdict)):
        forest = pair_forest(
            f"{trial.id}-pairs", differences, trial.verdict, worthwhile=contents.config.worthwhile, spread=spread
        )
        note = f"Right of zero is better. Dashed: worthwhile, {percent(contents.config.worthwhile)}."
        if spread:
            note += f" Shaded: ±{math.expm1(spread):.1%}, how far two launches of the same thing usually differ."
        shown.append(captioned(forest, "Candidate over baseline, pair by pair", note))
    timeline = launch_timeline(
        f"{trial.id}-time",
        trial,
        metric=metric,
        workload=contents.config.workloads[0].name,
        known=known,
    )
    repeats = "; ".join(f"pair {repeat.pair + 1}: {repeat.why}" for repeat in trial.repeats)
    notes = [f"Crossed out, does not count: {repeats}."] if repeats else []
    if known and all(launch.arm == "candidate" for launch in trial.launches):
        notes.append("The baseline was not launched: the dashed line is the level of its earlier launches.")
    shown.append(
        captioned(
            timeline, f"{title(metric)} of each launch{unit(metric) and ','}{unit(metric)}", " ".join(notes) or None
        )
    )
    found = contents.curves.get(trial.id)
    if found:
        shown += distributions(trial, found)
    return element("div", *shown, class_="figures")


def distributions(trial: Trial, found: Distributions) -> list[Node]:
    """Latency curves of both arms, as far as there are samples."""
    gone = f" The samples of {count(found.missing, 'pass')} are missing." if found.missing else ""
    return [
        captioned(
            ecdf.latency_curves(f"{trial.id}-{name}", curves, f"{label}, ms"),
            f"{label}, cumulative",
            quantiles(curves, gone),
        )
        for name, label, curves in (("ttft", "TTFT", found.ttft), ("itl", "ITL", found.itl))
        if curves
    ]


def quantiles(curves: tuple[Curve, ...], gone: str) -> Node:
    """The quantiles of both arms in one line."""
    told = [
        element("span", element("b", name), f" {base} → {mine} ms ({change})", class_="nowrap")
        for name, base, mine, change in ecdf.changes(curves)
    ]
    counts = " and ".join(f"{one.count:,}" for one in curves)
    return [*(part for one in told for part in (one, " · ")), f"{counts} values.{gone}"]


def checks(contents: Contents, trial: Trial) -> list[tuple[str, Node]]:
    """Effect proofs, answers and guards."""
    found: list[tuple[str, Node]] = []
    proofs = next((launch.proofs for launch in trial.launches if launch.proofs), ())
    if proofs:
        found.append(("Effect proofs", listed([proof_line(proof) for proof in proofs])))
    if trial.answers is not None:
        found.append(("Answers", answers(contents, trial)))
    if outcome(trial) == "void":
        return found
    corrupt = suspicion(contents.state, contents.config, trial)
    if corrupt:
        found.append(("Speculation", element("p", chip("suspect"), " ", corrupt + ".")))
    guards = guard_results(contents.state, contents.config, trial)
    if guards:
        lines: list[Node] = [[chip(guard.state), " ", code(guard.name), " ", guard.why] for guard in guards]
        found.append(("Guards", listed(lines)))
    return found


def listed(lines: list[Node]) -> Markup:
    """Lines below one another."""
    return element("ul", *(element("li", one) for one in lines), class_="plain")


def proof_line(proof: Proof) -> Node:
    """Whether a member was seen to be in force."""
    return [chip(HELD[proof.holds]), " ", code(proof.member), " ", element("span", proof.evidence, class_="muted wrap")]


def answers(contents: Contents, trial: Trial) -> Node:
    """Greedy answers of candidate against baseline."""
    seen, mode = trial.answers, contents.config.compared_as
    if seen is None:
        return None
    counts = [f"{seen.same} of {seen.asked} the same", f"{seen.near_ties} part at a near tie", f"{seen.wrong} wrong"]
    counts += [f"{seen.unjudged} not judged"] if seen.unjudged else []
    head: list[Node] = [", ".join(counts) + "."]
    if mode is not None:
        good, why = passes(seen, mode)
        head = [chip("pass" if good else "fail"), " ", *head, " ", why + "."]
    examples = [element("li", code(clip(example, 300))) for example in seen.examples]
    return [element("p", *head), element("ul", *examples, class_="plain") if examples else None]


def price(trial: Trial) -> Node:
    """What the trial cost."""
    started = len(trial.launches) + len(trial.failures)
    spoiled = sum(not counted(trial, launch) for launch in trial.launches)
    parts = [count(started, "launch")]
    parts += [f"{len(trial.failures)} of them failed"] if trial.failures else []
    parts += [f"{spoiled} thrown away"] if spoiled else []
    if trial.ended_at is not None:
        parts.append(duration(trial.ended_at - trial.started_at))
    return f"{', '.join(parts)}; begun {moment(trial.started_at)}, against baseline {trial.baseline}"


def launches(contents: Contents, trial: Trial) -> Markup:
    """Every launch with its figures."""
    metric = contents.metric
    rows: list[list[Node]] = [
        [
            str(launch.index + 1),
            launch.arm,
            str(launch.pair + 1),
            quantity(launch.value, metric),
            f"{launch.ready_s:.1f} s",
            f"{foreign_cores(launch):.2f}",
            f"{launch.rss_mb:,.0f} MB" if launch.rss_mb else "–",
            f"{launch.gpu_mb:,.0f} MB" if launch.gpu_mb is not None else "–",
            f"{launch.acceptance_length:.2f}" if launch.acceptance_length is not None else "–",
            "" if counted(trial, launch) else "does not count",
        ]
        for launch in trial.launches
    ]
    rows.extend(
        [str(failed.index + 1), failed.arm, "–", "failed", "–", "–", "–", "–", "–", clip(failed.why, 200)]
        for failed in trial.failures
    )
    rare = ["#Accelerator", "#Acceptance"]
    names = ["#Launch", "Arm", "#Pair", f"#{title(metric)}", "#Ready after", "#Foreign cores", "#Memory", *rare, ""]
    # A column that nobody has anything to say in is none.
    told = [at for at, name in enumerate(names) if name not in rare or any(row[at] != "–" for row in rows)]
    head, rows = [names[at] for at in told], [[row[at] for at in told] for row in rows]
    return folded(f"All {count(len(rows), 'launch')}", table(head, rows))
