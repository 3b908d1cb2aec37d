"""What a request can fail with, in plain values, so that it may travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Failure(Exception):
    """A request that failed.

    Args:
        kind: Name of the error of ``knowngood.errors`` that it becomes.
        message: What happened and where, without a final stop.
        hint: What to do about it.
        facts: Details for programs.
    """

    def __init__(self, kind: str, message: str, hint: str = "", facts: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.facts = dict(facts or {})
