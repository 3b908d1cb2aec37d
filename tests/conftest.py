"""Tests share helpers as ``tests.*``; in importlib mode pytest does not put the repository on the path."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[1])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
