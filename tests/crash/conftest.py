import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Thousands of small trees: memory if there is some, the disk's own speed is not what is under test.
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, not a predictable name


@pytest.fixture
def room() -> Iterator[Path]:
    """An empty directory, quick to write, with extended attributes."""
    inside = str(MEMORY) if os.access(MEMORY, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="knowngood-crash-", dir=inside)).resolve()
    yield path
    shutil.rmtree(path, ignore_errors=True)
