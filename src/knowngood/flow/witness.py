"""Asks the Python processes of a launch what code they have loaded, by a ``sitecustomize`` of ours."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import resources

import msgspec

from knowngood.errors import HostError
from knowngood.flow.bench import Bench
from knowngood.flow.interpreter import find_interpreter
from knowngood.flow.preflight import Arms
from knowngood.model.change import PYTHONPATH, Env
from knowngood.model.evidence import Arm
from knowngood.model.launch import LaunchSpec
from knowngood.model.process import Imported, Witness
from knowngood.ports import Host, Inside

WAIT_S = 30
WATCHED = (".py", ".so")
SET_UP = (
    'rm -rf -- "$1" && mkdir -p -- "$1/records" && '
    'printf %s "$2" >"$1/sitecustomize.py" && printf %s "$3" >"$1/watched"'
)
READ = 'cat -- "$1"/records/*'
MAPPED = 'cd /proc && for pid; do grep -shF -- "$0" "$pid/maps"; done; true'
CLEAR = 'rm -rf -- "$1"'


class Asked:
    """A launch whose processes tell what they load.

    Attributes:
        spec: How it is started.
        folder: Where they write it, on the host; empty if they are not asked.
    """

    def __init__(self, host: Host, spec: LaunchSpec, folder: str, watched: Sequence[str]) -> None:
        self._host = host
        self._watched = watched
        self.spec = spec
        self.folder = folder

    def read(self, inside: Inside) -> Witness | None:
        """What they have told so far; None if none of them could."""
        if not self.folder:
            return None
        told = run(self._host, READ, self.folder)
        records = [json.loads(line) for line in told.splitlines() if line.startswith("{") and line.endswith("}")]
        found = [one for path in self._watched for one in self._mapped(path, inside)]
        if not records and not found:
            return None
        return Witness(
            interpreters={record["pid"]: record["at"] for record in records if "path" not in record},
            imported=tuple(msgspec.convert(record, Imported) for record in records if "path" in record),
            mapped=tuple(dict.fromkeys(found)),
        )

    def _mapped(self, path: str, inside: Inside) -> list[str]:
        """Files at or below a path that live processes have mapped."""
        if path.endswith(".py"):
            return []
        lines = self._host.run(["sh", "-c", MAPPED, path, *map(str, inside.pids)], timeout_s=WAIT_S).out.decode()
        return [line[line.index("/") :] for line in lines.splitlines() if path in line and "/" in line]


@contextmanager
def asked(bench: Bench, arms: Arms, arm: Arm, *, name: str) -> Generator[Asked]:
    """Have the processes of a launch say what they load, for the length of a block.

    Only Python code and libraries that the change set alters are watched. A launch without any is left as it is, and so
    is one whose interpreter would not look: it ignores ``PYTHONPATH``, or the change set is about that variable.

    Args:
        bench: The lab's tools.
        arms: Both arms.
        arm: Which one is launched.
        name: Name of the launch.
    """
    spec = arms.candidate if arm == "candidate" else arms.baseline
    watched = watched_paths(arms) if arm == "candidate" else []
    if not watched or find_interpreter(bench.host, bench.config).deaf:
        yield Asked(bench.host, spec, "", ())
        return
    folder = str(bench.folder / "witness" / name)
    source = resources.files("knowngood.flow.on_host").joinpath("witness.py").read_text("utf-8")
    run(bench.host, SET_UP, folder, source, "\n".join(watched))
    try:
        yield Asked(bench.host, with_last_on_path(bench.host, spec, folder), folder, watched)
    finally:
        run(bench.host, CLEAR, folder)


def watched_paths(arms: Arms) -> list[str]:
    """Code that a change set alters: files, and with a slash at its end the overlay of its pins."""
    if any(isinstance(change, Env) and change.name == PYTHONPATH for change in arms.changes.members):
        return []
    files = [edit.path for edit in arms.edits if edit.after is not None and edit.path.endswith(WATCHED)]
    return [*files, f"{arms.overlay.folder}/"] if arms.overlay else files


def with_last_on_path(host: Host, spec: LaunchSpec, folder: str) -> LaunchSpec:
    """A launch with a directory at the end of its ``PYTHONPATH``, where it shadows nothing."""
    inherited = "" if PYTHONPATH in spec.unset else run(host, 'printf %s "$PYTHONPATH"')
    path = spec.env.get(PYTHONPATH, inherited)
    unset = tuple(name for name in spec.unset if name != PYTHONPATH)
    env = {**spec.env, PYTHONPATH: ":".join(filter(None, (path, folder)))}
    return msgspec.structs.replace(spec, env=env, unset=unset)


def run(host: Host, script: str, *words: str) -> str:
    """Output of a shell script on the host; empty if it fails."""
    try:
        return host.run(["sh", "-c", script, "sh", *words], timeout_s=WAIT_S).out.decode(errors="replace")
    except HostError:
        return ""
