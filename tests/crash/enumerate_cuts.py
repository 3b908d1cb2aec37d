"""All power cuts of a request. Each violation is one line."""

from collections.abc import Iterator

from tests.crash.enumerate_faults import Tally, prepare
from tests.crash.scene import Scene
from tests.crash.weakfs import power_cuts, put

ANSWERED = {"apply": "new", "keep": "new", "revert": "old", "revert kept": "old", "recover": "old"}


def cuts(
    scene: Scene,
    request: str,
    tally: Tally,
    *,
    cap: int = 128,
    exchange: bool = True,
    without_pre_images: bool = False,
) -> Iterator[str]:
    """Cut the power at every operation of a request, recover, compare."""
    scene.build()
    good = scene.contents()
    for count, answered, image in power_cuts(
        scene,
        lambda: prepare(scene, request)[1],
        cap=cap,
        exchange=exchange,
        without_pre_images=without_pre_images,
    ):
        put(image, scene.root)
        tally.states += 1
        tally.mixed += scene.shows() == "mixed"
        yield from judge(scene, request, good, f"{request}@{count}", answered=answered)


def judge(scene: Scene, request: str, good: dict[str, bytes], where: str, *, answered: bool) -> Iterator[str]:
    """Check one image: what was acknowledged stands, and the known-good tree can be had back."""
    try:
        if answered and scene.shows() != ANSWERED[request]:
            yield f"{where}: acknowledged, but the tree is {scene.shows()}"
        journal = scene.journal()
        if answered and request == "keep" and [s.state for s in journal.recover()] != []:
            yield f"{where}: the acknowledged keep is lost"
        if answered and request == "apply" and [s.state for s in journal.transactions()] != ["applied"]:
            yield f"{where}: the acknowledged apply is lost"
        scene.come_back()
        now = scene.contents()
        differing = sorted(name for name in now.keys() | good.keys() if now.get(name) != good.get(name))
        left = [f"{status.id} is {status.state}" for status in scene.journal().transactions()]
        if wrong := differing + scene.litter() + left:
            yield f"{where}: {wrong}"
    except Exception as error:  # noqa: BLE001 - whatever a mutant does is a violation
        yield f"{where}: recovery failed: {error!r}"
