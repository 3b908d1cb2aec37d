"""A change that silently does not take effect is void, never a number: on real processes."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

SERVER = """\
import multiprocessing, os, sys, time

def work():
    os.environ["OVERWRITTEN_LATE"] = "not to be seen from outside"
    import kernels.fast
    print("worker runs", kernels.fast.NAME, flush=True)
    time.sleep(600)

if __name__ == "__main__":
    os.environ["OVERWRITTEN"] = "8"
    multiprocessing.get_context("{start}").Process(target=work, daemon=True).start()
    from knowngood.testing.sse_server import main
    main([*sys.argv[1:], "--itl-ms", "5"])
"""

DYING = """\
import subprocess, sys, time
print("[2026-01-01 00:00:00] server_args=ServerArgs(tp_size=1)", flush=True)
print("[2026-01-01 00:00:01 TP0] Load weight begin. avail mem=90.00 GB", flush=True)
worker = "raise RuntimeError('No supported CUDA architectures found for major versions [9, 10].')"
subprocess.run([sys.executable, "-c", worker])
print("[2026-01-01 00:00:02] Received sigquit from a child process. It usually means the child failed.", flush=True)
time.sleep(600)
"""


def prepare(lab: "RealLab", *, start: str = "spawn") -> None:
    package = lab.root / "kernels"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "fast.py").write_text('NAME = "slow"\n')
    (package / "never.py").write_text('NAME = "slow"\n')
    (lab.root / "server.py").write_text(SERVER.replace("{start}", start))
    done = lab.run("baseline", "--json")
    assert done.status == 0, done


def tried(lab: "RealLab", text: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Decision, reason in words and proofs of a trial; the host is at known-good after it."""
    done = lab.run("try", lab.experiment("idea", text), "--json")
    (trial,) = done.json["trials"]
    lab.assert_known_good()
    assert not list((lab.root / ".knowngood" / "witness").glob("*/*"))
    return trial["verdict"]["decision"], trial["verdict"]["why"], trial["proofs"]


def edit(name: str) -> str:
    return f'[[change]]\nedit = "kernels/{name}.py"\nfind = "slow"\nreplace = "fast"\n'


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_an_edit_is_proven_by_the_worker_that_has_loaded_it(anywhere: "RealLab", start: str) -> None:
    prepare(anywhere, start=start)
    decision, why, proofs = tried(anywhere, f"proves = {{ log = 'worker runs fast' }}\n{edit('fast')}")
    assert decision != "void", why
    assert [proof["holds"] for proof in proofs] == [True, True]
    assert "loaded by process" in proofs[0]["evidence"]


def test_an_edit_that_nobody_loads_is_void(anywhere: "RealLab") -> None:
    prepare(anywhere)
    decision, why, _ = tried(anywhere, edit("never"))
    assert decision == "void"
    assert "processes has loaded it" in why


def test_a_patch_that_nobody_loads_is_void(lab: "RealLab") -> None:
    prepare(lab)
    diff = '--- a/never.py\n+++ b/never.py\n@@ -1 +1 @@\n-NAME = "slow"\n+NAME = "fast"\n'
    (lab.root / "p.diff").write_text(diff)
    decision, why, _ = tried(lab, '[[change]]\npatch = "p.diff"\nroot = "kernels"\n')
    assert (decision, "0 of them loaded" in why) == ("void", True), why


def test_a_variable_that_the_server_overwrites_is_void(anywhere: "RealLab") -> None:
    prepare(anywhere)
    decision, why, _ = tried(anywhere, '[[change]]\nenv = "OVERWRITTEN"\nvalue = "1"\n')
    assert decision == "void"
    assert "OVERWRITTEN=8 in the environment of process" in why
    decision, why, proofs = tried(anywhere, '[[change]]\nenv = "LEFT_ALONE"\nvalue = "1"\n')
    assert decision != "void", why
    assert "and of" in proofs[0]["evidence"]


def test_a_sign_that_does_not_show_is_void(lab: "RealLab") -> None:
    prepare(lab)
    decision, why, _ = tried(lab, f"proves = {{ log = 'worker runs blazing' }}\n{edit('fast')}")
    assert (decision, "it does not show" in why) == ("void", True), why
    always = f"proves = {{ log = 'worker runs' }}\n{edit('fast')}"
    done = lab.run("try", lab.experiment("always", always), "--json")
    assert (done.status, done.json["error"]) == (2, "Refused"), done
    assert "shows without the change, too: the log says: worker runs slow" in done.json["message"]


def test_the_death_of_a_worker_is_noticed_although_its_parent_lives(lab: "RealLab") -> None:
    file = lab.root / "knowngood.toml"
    file.write_text(file.read_text().replace('engine = "openai"', 'engine = "sglang"').replace("30s", "110s"))
    (lab.root / "server.py").write_text(DYING)
    done = lab.run("baseline", "--json", timeout=100)
    assert done.json["error"] == "Died", done
    assert "a process of it has failed, the first one lives on" in done.json["message"]
    assert lab.servers() == []
