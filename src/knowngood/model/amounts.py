"""Numbers of configuration files: finite, and in the range in which they mean something."""

from typing import Annotated

from msgspec import Meta

Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=0, le=10_000_000)]
Some = Annotated[int, Meta(ge=1, le=10_000_000)]
Slots = Annotated[int, Meta(ge=0, le=100_000)]
Tokens = Annotated[float, Meta(ge=1, le=10_000_000)]
Spread = Annotated[float, Meta(ge=0, le=10_000_000)]
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=31_622_400)]
"""Up to a year, as ``config.values.seconds`` allows."""
Patience = Annotated[float, Meta(gt=0, le=31_622_400)]
Milliseconds = Annotated[float, Meta(gt=0, le=31_622_400_000)]
Limit = Annotated[float, Meta(ge=0)]
"""Without an upper end: ``inf`` sets no limit."""
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
