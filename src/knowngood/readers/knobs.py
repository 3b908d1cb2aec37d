"""The catalogue of knobs: what serving, communication and host settings do, need, and can break."""

from functools import cache
from importlib.resources import files

import msgspec

from knowngood.model.profile import Catalogue


@cache
def catalogue() -> Catalogue:
    """The packaged catalogue."""
    text = files("knowngood.readers").joinpath("knobs.json").read_bytes()
    return msgspec.json.decode(text, type=Catalogue)
