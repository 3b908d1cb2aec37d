"""File edits as a block: they are on the host inside it, and nowhere outside it."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from knowngood.config.lab import LabConfig
from knowngood.errors import Drift, UsageError
from knowngood.flow.interpreter import find_interpreter
from knowngood.model.change import ChangeSet, Edit, File, FileChange, Patch
from knowngood.model.files import FileEdit
from knowngood.ports import Host, Journal
from knowngood.reason import edits as planning

PYTHON_PATH = "python:"
FIND_PACKAGE = (
    "import importlib.util, sys; spec = importlib.util.find_spec(sys.argv[1]);"
    "print(spec.submodule_search_locations[0] if spec.submodule_search_locations else spec.origin)"
)


@contextmanager
def applied(journal: Journal, tx: str, edits: Sequence[FileEdit]) -> Generator[None]:
    """Put edits on the host for the length of a block.

    Args:
        journal: The host's journal.
        tx: Id of the transaction.
        edits: The planned edits; none is fine.

    Raises:
        Drift: A file is not what the plan was made for; nothing was changed.
        RevertFailed: A file was edited by somebody else meanwhile; it was left alone and the host is quarantined.
    """
    if not edits:
        yield
        return
    journal.apply(tx, edits)
    try:
        yield
    finally:
        journal.revert(tx)


def plan_edits(host: Host, config: LabConfig, changes: ChangeSet, known: Mapping[str, str]) -> tuple[FileEdit, ...]:
    """Plan a change set's file edits against what stands on the host.

    Args:
        host: Where the files are.
        config: Names the interpreter that resolves ``python:`` paths.
        changes: The change set.
        known: Managed file to the digest that the baseline says stands there; empty string for no file.

    Raises:
        Drift: A managed file is not what the baseline says.
        Refused: A change does not apply exactly.
        UsageError: A ``python:`` path cannot be resolved.
    """
    resolved = tuple(resolve(host, config, change) for change in changes.edits())
    now = {path: host.look(path) for path in planning.touched(resolved)}
    for path, content in now.items():
        if path in known and (planning.digest(content) or "") != known[path]:
            raise Drift(
                f"{path} is not what the baseline says",
                hint="somebody edited it: `knowngood capture` makes an experiment of it, `baseline` records it",
            )
    return planning.plan(resolved, now)


def resolve(host: Host, config: LabConfig, change: FileChange) -> FileChange:
    """Turn a ``python:PKG/…`` path into a path on the host."""
    match change:
        case Edit() | File():
            return replace_path(change, locate(host, config, change.path))
        case Patch():
            root = locate(host, config, change.root)
            return Patch(name=change.name, root=root, diff=change.diff)


def replace_path(change: Edit | File, path: str) -> Edit | File:
    """Return the change, on another path."""
    if isinstance(change, Edit):
        return Edit(path=path, find=change.find, replace=change.replace, count=change.count)
    return File(path=path, content=change.content, source=change.source)


def locate(host: Host, config: LabConfig, path: str) -> str:
    """Where a path of an experiment lies on the host.

    Raises:
        UsageError: Its package is not installed for the server's interpreter.
    """
    if not path.startswith(PYTHON_PATH):
        return path
    package, _, rest = path.removeprefix(PYTHON_PATH).partition("/")
    python = find_interpreter(host, config).path
    found = host.run([python, "-c", FIND_PACKAGE, package], timeout_s=60)
    if found.status:
        hint = "set [server] python to the interpreter that the server runs with"
        raise UsageError(f"{python} has no package {package!r}, which {path} needs", hint=hint)
    root = found.out.decode().strip()
    return f"{root}/{rest}" if rest else root
