import os
import subprocess
import sys
from pathlib import Path

import knowngood

SPIN = """
import time
from knowngood.loads.priority import current_priority, raise_priority
taken = raise_priority()
assert current_priority() == taken, (current_priority(), taken)
until = time.monotonic() + 30
while taken == "realtime" == current_priority() and time.monotonic() < until:
    pass
print(taken, current_priority())
"""


def test_a_client_that_never_waits_does_not_stay_real_time() -> None:
    done = subprocess.run([sys.executable, "-c", SPIN], capture_output=True, text=True, check=True)
    taken, left = done.stdout.split()
    assert taken in {"realtime", "nice", "normal"}
    assert left != "realtime"


def test_the_generator_imports_nothing_but_the_standard_library_and_its_room() -> None:
    code = (
        "import sys, knowngood.loads.generator\n"
        "print(*sorted(n for n in sys.modules if n.partition('.')[0] not in sys.stdlib_module_names))"
    )
    # Without site-packages, so that a foreign import fails; the package itself comes from where it lies.
    env = {**os.environ, "PYTHONPATH": str(Path(knowngood.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=env)
    names = set(done.stdout.split())
    assert "knowngood.loads.generator" in names
    assert all(
        name in {"knowngood", "knowngood.loads", "__main__"} or name.startswith("knowngood.loads.") for name in names
    )
