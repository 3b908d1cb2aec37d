"""The known-good state of a host."""

import msgspec

from knowngood.model.launch import LaunchSpec


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What the host goes back to, and what candidates are compared with.

    Attributes:
        version: 1 for the first, one more with every keep, undo or new baseline.
        spec: How the server is started.
        origin: How the lab file said to start it, before any keep.
        files: Managed file to the SHA-256 of its known-good bytes; empty string for a file that does not stand there.
        originals: Managed file to the SHA-256 of its bytes before the first keep; empty string for none.
        roots: Managed directory to the digest of its listing (see ``model.listing``).
        facts: Host facts: fact name to value.
        transactions: Journal transactions in force, oldest first: the kept file changes.
        settings: Setting in force by a keep to its value.
        setting_transactions: Transactions of settings in force, oldest first.
        pins: Requirements in force by a keep; the overlays stand first in the launch's ``PYTHONPATH``.
        kept: Trials whose change sets are part of it, oldest first.
        workloads: Digest of the workload definitions it was measured with.
    """

    version: int
    spec: LaunchSpec
    origin: LaunchSpec
    files: dict[str, str] = {}
    originals: dict[str, str] = {}
    roots: dict[str, str] = {}
    facts: dict[str, str] = {}
    transactions: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    setting_transactions: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    workloads: str = ""
