"""knowngood: try a change on an LLM inference server, keep it only if it is proven better.

The public Python API is the names below; each is loaded when it is first asked for, so that importing the package
costs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowngood.app.lab import Lab
    from knowngood.app.without_lab import diagnose_log as diagnose
    from knowngood.reason.judge import Judge

__version__ = "0.1.0"
__all__ = ["Judge", "Lab", "__version__", "diagnose"]

HOMES = {
    "Judge": ("knowngood.reason.judge", "Judge"),
    "Lab": ("knowngood.app.lab", "Lab"),
    "diagnose": ("knowngood.app.without_lab", "diagnose_log"),
}


def __getattr__(name: str) -> object:
    """Load a public name from where it lives."""
    if name not in HOMES:
        raise AttributeError(f"module 'knowngood' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    module, attribute = HOMES[name]
    return getattr(import_module(module), attribute)
