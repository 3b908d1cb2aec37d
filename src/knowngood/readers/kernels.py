"""Kernel and operation names to categories, by an ordered table that is data."""

import re
import tomllib
from functools import cache
from importlib.resources import files

import msgspec


class KernelRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    Attributes:
        category: Such as ``comm.allreduce``.
        pattern: Regular expression, searched for in the name.
        examples: Real names that this rule, and none before it, matches.
    """

    category: str
    pattern: str
    examples: tuple[str, ...]


@cache
def kernel_rules() -> tuple[KernelRule, ...]:
    """The table, in its order."""
    doc = tomllib.loads(files("knowngood.readers").joinpath("kernels.toml").read_text(encoding="utf-8"))
    return msgspec.convert(doc["rule"], tuple[KernelRule, ...])


@cache
def patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The table, compiled."""
    return tuple((re.compile(rule.pattern), rule.category) for rule in kernel_rules())


def categorise(name: str) -> str:
    """Category of a kernel or operation: that of the first rule that matches."""
    return next((category for pattern, category in patterns() if pattern.search(name)), "other")
