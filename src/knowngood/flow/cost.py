"""What a trial costs and what it can find: said before the first launch, and asked of every prediction."""

from knowngood.errors import Refused
from knowngood.flow.bench import Bench
from knowngood.model.hypothesis import Hypothesis
from knowngood.reason.comparison import floor_of
from knowngood.reason.power import Price, hoped_for, mde, price
from knowngood.reason.profile import PROFILES, find_profile

STOP_S = 1.0
MINUTE = 1.5
"""Below so many minutes seconds are named."""


def launch_seconds(bench: Bench) -> tuple[float, float]:
    """Seconds that a launch and its runs took lately; guesses before the first baseline."""
    known = bench.memory.state.ledger or bench.memory.state.recent
    if not known:
        return 60.0, bench.config.workloads[0].duration_s
    run_s = sum(run.seconds for launch in known for run in launch.runs) / len(known)
    whole_s = sum(max(launch.took_s, launch.ready_s) for launch in known) / len(known)
    return max(whole_s - run_s, 0.0) + STOP_S, run_s


def price_of(bench: Bench, profile: str) -> Price:
    """What a trial of a profile costs on this host, and the smallest effect that it finds."""
    launch_s, run_s = launch_seconds(bench)
    floor = floor_of(bench.memory.state, bench.config.objective.metric, workload=bench.config.workloads[0].name)
    return price(find_profile(profile), floor, bench.config.worthwhile, launch_s=launch_s, run_s=run_s)


def announce(bench: Bench, title: str, profile: str) -> None:
    """Say before the first launch what may be found and how long it takes."""
    cost = price_of(bench, profile)
    finds = f"finds an effect of {cost.mde:+.1%} with 80 % probability"
    takes = f"takes about {in_words(cost.minutes)} if there is none, at most {in_words(cost.most_minutes)}"
    bench.show.begin(f"{title}: {finds}, {takes}", expected_s=0.0)


def in_words(minutes: float) -> str:
    """A length of time as people say it."""
    return f"{60 * minutes:.0f} s" if minutes < MINUTE else f"{minutes:.0f} min"


def require_answerable(bench: Bench, hypothesis: Hypothesis, profile: str) -> None:
    """Refuse a trial that could not tell whether its own prediction is right.

    Raises:
        Refused: Even the best predicted effect is smaller than what the design finds with 80 % probability.
    """
    config, state = bench.config, bench.memory.state
    hope = hoped_for(hypothesis, metric=config.objective.metric, direction=config.direction)
    if hope is None or hope <= 0:
        return
    floor = floor_of(state, config.objective.metric, workload=config.workloads[0].name)
    found = {name: mde(one, floor, config.worthwhile) for name, one in PROFILES.items()}
    if hope >= found[profile]:
        return
    better = next((name for name in ("standard", "thorough") if found[name] <= hope), "")
    way = (
        f"--profile {better} finds effects from {found[better]:+.1%}" if better else "no profile does: lower the noise"
    )
    raise Refused(
        f"{hypothesis.name} predicts {hope:+.1%} at best, and the profile {profile} finds effects from "
        f"{found[profile]:+.1%} here",
        hint=f"{way}; --force tries it all the same",
    )
