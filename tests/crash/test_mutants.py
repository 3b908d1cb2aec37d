"""Is the harness sensitive? The protocol is broken in known ways, and every break must be noticed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.enumerate_cuts import cuts
from tests.crash.enumerate_faults import Tally, errors, kills
from tests.crash.enumerate_foreign import foreign
from tests.crash.faults import fail_once, kill
from tests.crash.scene import Scene, load_agent

BARRIER = "barrier(self._disk, fds, self._directories(plan))"
CLOSE = "[self._disk.close(fd) for fd in fds]"

# Name of the mutant: (harness that must notice it, what is replaced by what).
MUTANTS = {
    "files are never synced": ("cut apply", "                    disk.fsync(todo[number])", "                    pass"),
    "directories are never synced": (
        "cut apply",
        "todo.extend(disk.open_directory(path) for path in sorted(set(directories)))",
        "pass",
    ),
    "intent is not durable before it is acted on": (
        "cut apply",
        "barrier(self._disk, fds, [fresh, self.tx])",
        CLOSE,
    ),
    "the intent's own name is not durable": ("cut apply", "barrier(self._disk, (), [self.root, self.tx])", "pass"),
    "staged bytes are not durable": ("cut apply", BARRIER, CLOSE),
    "a step is not durable": (
        "cut apply",
        "            barrier(self._disk, (), [record.directory])\n        return",
        "        return",
    ),
    "no barrier after the swap": ("cut apply", "barrier(self._disk, (), self._directories(plan))", "pass"),
    "staged bytes go before the originals are durable": (
        "cut revert",
        "        barrier(self._disk, (), self._directories())\n        for hold in self._spent",
        "        for hold in self._spent",
    ),
    "a failed fsync is ignored": ("fail apply", "errors.append(error)", "pass"),
    "what comes out of the swap is not looked at": (
        "edit apply",
        "if digest(self._disk, entry.hold) != entry.pre:",
        "if False:",
    ),
    "what comes out of the revert is not looked at": (
        "edit revert",
        "if digest(self._disk, entry.hold) != entry.post:",
        "if False:",
    ),
    "a new file replaces what appeared": (
        "make apply",
        "                move(self._disk, entry.hold, entry.path)\n            except",
        "                self._disk.rename(entry.hold, entry.path)\n            except",
    ),
    "a swapped transaction is taken for a staged one": (
        "kill apply",
        "if record.state == INTENT:",
        "if record.state in (INTENT, SWAP):",
    ),
    "a staged transaction never says that it swaps": (
        "kill apply",
        "record = self._shelf.step(record, SWAP)",
        "pass",
    ),
    "a plain rename instead of an exchange": (
        "kill apply",
        "        disk.rename_flags(hold, path, EXCHANGE)",
        "        disk.rename(hold, path)",
    ),
    "the trial's bytecode stays": ("kill revert", "not in (originals.get(path), OTHER):", "is OTHER:"),
    "the original's bytecode is lost": ("kill revert", "self._disk.rename(entry.hold, entry.path)", "pass"),
    "directories that were made stay": ("kill revert", "self._disk.rmdir(entry.path)", "pass"),
    "recovery undoes what was kept": ("cut keep", "elif record.state != KEEP:", "else:"),
    "half-written records stay": ("kill apply", "if name.endswith(NEW):", "if False:"),
}


def notices(scene: Scene, harness: str) -> Iterator[str]:
    kind, request = harness.split()
    match kind:
        case "cut":
            yield from cuts(scene, request, Tally(), cap=32, without_pre_images=request == "revert")
        case "kill":
            yield from kills(scene, request, kill, Tally())
        case "fail":
            yield from errors(scene, request, fail_once, Tally())
        case "edit":
            yield from foreign(scene, request, "rename", "pkg/m.py", Tally())
        case _:
            yield from foreign(scene, request, "rename", "made/sub/fresh.py", Tally())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_protocol_is_noticed(room: Path, name: str) -> None:
    harness, old, new = MUTANTS[name]
    scene = Scene(room / "disk", load_agent([(old, new)]))
    assert next(notices(scene, harness), None) is not None


@pytest.mark.parametrize("harness", sorted({harness for harness, _, _ in MUTANTS.values()}))
def test_the_same_harness_finds_nothing_in_the_protocol_itself(room: Path, harness: str) -> None:
    assert next(notices(Scene(room / "disk", load_agent()), harness), None) is None
