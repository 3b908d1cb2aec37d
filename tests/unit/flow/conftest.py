"""Tests here share the fake lab of ``test_trial_flow``; in importlib mode pytest puts nothing on the path."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
