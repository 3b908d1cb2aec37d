"""Managed files: what the baseline says of them, and what somebody has made of them since."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import msgspec

from knowngood.config.lab import LAB_FILE
from knowngood.errors import HostError, NotFound, UsageError
from knowngood.flow.bench import Site
from knowngood.model.baseline import Baseline
from knowngood.model.listing import FileNote, Listing
from knowngood.reason.edits import digest

LARGEST = 8_000_000
LIST_S = 600
EXPERIMENTS = "experiments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A managed file that is not what the baseline says.

    Attributes:
        path: Absolute path on the host.
        root: Managed directory that it lies in; for a single managed file, its directory.
        known: Digest of its known-good bytes; empty for no file.
        after: Bytes that stand there; None for no file.
        why_not: Why it cannot be captured; empty if it can.
    """

    path: str
    root: str
    known: str = ""
    after: bytes | None = None
    why_not: str = ""


def take_in(site: Site) -> dict[str, str]:
    """List the managed directories and keep the bytes of their files.

    Returns:
        Directory to the digest of its listing, for the baseline.

    Raises:
        UsageError: One is no directory, or cannot be read.
    """
    found: dict[str, str] = {}
    for root, listing in list_roots(site, site.config.managed, digests=True).items():
        kept = {path: keep_bytes(site, f"{root}/{path}", note) for path, note in listing.items()}
        found[root] = site.artifacts.put(msgspec.json.encode(kept))
    return found


def keep_bytes(site: Site, path: str, note: FileNote) -> FileNote:
    """Take a file's bytes in as an artifact, unless they are there; a large one has none."""
    if not note.sha256:
        return note
    try:
        site.artifacts.path(note.sha256)
    except NotFound:
        content = site.host.look(path)
        return note if content is None else FileNote(len(content), note.mtime_ns, site.artifacts.put(content))
    return note


def take_in_files(site: Site, known: Mapping[str, str]) -> dict[str, str]:
    """Digests of single managed files as they stand now, their bytes kept: what a new baseline says of them."""
    found: dict[str, str] = {}
    for path in known:
        content = site.host.look(path)
        found[path] = "" if content is None else site.artifacts.put(content)
    return found


def list_roots(site: Site, roots: Sequence[str], *, digests: bool) -> dict[str, Listing]:
    """List directories on the host.

    Raises:
        UsageError: One is no directory, or cannot be read.
    """
    if not roots:
        return {}
    lab = site.config.root
    request = {
        "roots": list(roots),
        "skip": [str(lab / EXPERIMENTS), str(lab / LAB_FILE), str(site.folder)],
        "largest": LARGEST,
        "digests": digests,
        "longest_s": LIST_S,
    }
    source = resources.files("knowngood.flow.on_host").joinpath("listing.py").read_text("utf-8")
    done = site.host.run(["python3", "-I", "-c", source, json.dumps(request)], timeout_s=LIST_S)
    if done.status:
        said = done.err.decode(errors="replace").strip().splitlines()
        raise UsageError(
            f"[host] managed cannot be listed: {said[-1] if said else 'no message'}",
            hint="name directories that stand there and can be read",
        )
    return msgspec.json.decode(done.out, type=dict[str, Listing])


def known_files(site: Site) -> dict[str, str]:
    """Every managed file to the digest of its known-good bytes; empty for no file. Large ones are left out."""
    baseline = site.memory.state.baseline
    if baseline is None:
        return {}
    listed = {
        f"{root}/{path}": note.sha256
        for root, listing in listings(site, baseline).items()
        for path, note in listing.items()
        if note.sha256
    }
    return listed | baseline.files


def listings(site: Site, baseline: Baseline) -> dict[str, Listing]:
    """The baseline's listing of each managed directory."""
    read = msgspec.json.Decoder(Listing).decode
    return {root: read(site.artifacts.path(one).read_bytes()) for root, one in baseline.roots.items()}


def changed_files(site: Site, *, thorough: bool) -> Iterator[Changed]:
    """Compare managed files with the baseline.

    Args:
        site: The lab and its host.
        thorough: Read every file; else one of the same size and time counts as unchanged.

    Raises:
        UsageError: A managed directory cannot be listed.
    """
    baseline = site.memory.state.baseline
    if baseline is None:
        return
    now = list_roots(site, tuple(baseline.roots), digests=thorough)
    seen: set[str] = set()
    for root, listing in listings(site, baseline).items():
        for relative in sorted({*listing, *now[root]}):
            path = f"{root}/{relative}"
            if path not in baseline.files and path not in seen:
                seen.add(path)
                known, found = listing.get(relative), now[root].get(relative)
                if not is_same(known, found, thorough=thorough):
                    yield from compare(site, path, root, known, found)
    for path, known_digest in baseline.files.items():
        root = next((one for one in baseline.roots if path.startswith(f"{one}/")), str(Path(path).parent))
        yield from compare_bytes(site, path, root, known_digest)


def is_same(known: FileNote | None, found: FileNote | None, *, thorough: bool) -> bool:
    """Whether a listing's two notes of a file say that nothing has changed."""
    if known is None or found is None:
        return known is found
    if thorough and known.sha256 and found.sha256:
        return known.sha256 == found.sha256
    return (known.size, known.mtime_ns) == (found.size, found.mtime_ns)


def compare(site: Site, path: str, root: str, known: FileNote | None, found: FileNote | None) -> Iterator[Changed]:
    """Look closer at a file whose notes differ."""
    large = any(note is not None and note.size > LARGEST for note in (known, found))
    if large:
        yield Changed(path=path, root=root, why_not=f"larger than {LARGEST // 1_000_000} MB")
    else:
        yield from compare_bytes(site, path, root, known.sha256 if known else "", listed=found is not None)


def compare_bytes(site: Site, path: str, root: str, known: str, *, listed: bool = True) -> Iterator[Changed]:
    """Hold a file's bytes against the known-good ones.

    Args:
        site: The lab and its host.
        path: The file.
        root: Where it is managed.
        known: Digest of its known-good bytes; empty for no file.
        listed: Whether a regular file stands there, as far as a listing tells.
    """
    try:
        content = site.host.look(path)
    except HostError as error:
        yield Changed(path=path, root=root, why_not=error.message)
        return
    if content is not None and not listed:
        yield Changed(path=path, root=root, why_not="a link stands there")
    elif (digest(content) or "") != known:
        yield Changed(path=path, root=root, known=known, after=content)


def known_bytes(site: Site, change: Changed) -> bytes | None:
    """Known-good bytes of a file; None for no file."""
    return site.artifacts.path(change.known).read_bytes() if change.known else None
