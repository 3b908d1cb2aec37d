"""Everything here shares ``tests.crash.*``; in importlib mode pytest does not put the repository on the path."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

# Thousands of small trees: memory if there is some, the disk's own speed is not what is under test.
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, not a predictable name


@pytest.fixture
def room() -> Iterator[Path]:
    """An empty directory, quick to write, with extended attributes."""
    inside = str(MEMORY) if os.access(MEMORY, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="knowngood-crash-", dir=inside)).resolve()
    yield path
    shutil.rmtree(path, ignore_errors=True)
