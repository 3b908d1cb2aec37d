"""Settings as a block: they are in force inside it, and nowhere outside it; and change sets put on a host for good."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from knowngood.flow.bench import Site
from knowngood.model.change import Setting
from knowngood.model.files import FileEdit
from knowngood.ports import Host, Settings


def drifted_settings(site: Site) -> tuple[str, ...]:
    """Kept settings that somebody has set since; what a reboot undid is left over, not drifted."""
    baseline = site.memory.state.baseline
    if baseline is None or not baseline.settings:
        return ()
    kept = [tx for tx in site.host.settings.transactions() if tx.id in baseline.setting_transactions]
    now = {name: value for tx in kept if tx.state == "kept" for name, value in tx.values.items()}
    return tuple(name for name, value in now.items() if value != baseline.settings.get(name))


@contextmanager
def tuned(book: Settings, tx: str, settings: Sequence[Setting]) -> Generator[None]:
    """Have settings in force for the length of a block.

    Args:
        book: The host's journal of settings.
        tx: Id of the set.
        settings: What to set; nothing is fine.

    Raises:
        Refused: One cannot be set, or its undo failed in rehearsal; everything is as before.
        RevertFailed: Somebody else has set one meanwhile; it was left alone and the host is quarantined.
    """
    if not settings:
        yield
        return
    book.apply(tx, settings)
    try:
        yield
    finally:
        book.revert(tx)


@contextmanager
def settled(host: Host, tx: str, edits: Sequence[FileEdit], settings: Sequence[Setting]) -> Generator[None]:
    """Put edits and settings on a host; they stay if the block ends well and are taken back if it does not.

    They are kept before the block is run, because a host that brings itself back knows nothing of what the block does.

    Args:
        host: The host.
        tx: Id of both transactions.
        edits: The planned edits.
        settings: The settings, set last and taken back first.
    """
    with ExitStack() as back:
        if edits:
            host.journal.apply(tx, edits)
            back.callback(host.journal.revert, tx)
        if settings:
            host.settings.apply(tx, settings)
            back.callback(host.settings.revert, tx)
        if edits:
            host.journal.keep(tx)
        if settings:
            host.settings.keep(tx)
        yield
        back.pop_all()
