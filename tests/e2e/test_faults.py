"""What goes wrong gives a clear message, a host at known-good and no leftover process."""

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

FASTER = '[[change]]\nedit = "pace.txt"\nfind = "10"\nreplace = "5"\n'


def test_a_server_killed_while_it_is_measured_is_void(measured: "RealLab") -> None:
    before = measured.pace.read_bytes()
    with measured.start("try", measured.experiment("faster", FASTER), "--json") as trying:
        pid = measured.wait_for_server()
        time.sleep(0.8)
        os.kill(pid, signal.SIGKILL)
        done = measured.finish(trying)
    assert done.status == 1, done
    assert "signal 9" in done.json["trials"][0]["verdict"]["why"]
    assert measured.pace.read_bytes() == before
    measured.assert_known_good()


def test_a_port_taken_by_somebody_else_is_said_before_anything_starts(measured: "RealLab") -> None:
    server = [sys.executable, str(measured.root / "server.py"), "--port", str(measured.port)]
    with subprocess.Popen(server, stdout=subprocess.DEVNULL) as other:
        try:
            measured.wait_for_server()
            done = measured.run("try", measured.experiment("faster", FASTER), "--json")
            assert done.status == 5, done
            assert done.json["error"] == "Busy"
            assert str(measured.port) in done.json["message"]
            assert other.poll() is None
        finally:
            other.terminate()
    measured.assert_known_good()


def test_a_wrong_flag_dies_early_and_quotes_the_server(measured: "RealLab") -> None:
    name = measured.experiment("wrong", '[[change]]\nflag = "--no-such-flag"\nvalue = "1"\n')
    done = measured.run("try", name, "--json")
    assert done.status == 1, done
    trial = done.json["trials"][0]
    assert "no-such-flag" in trial["verdict"]["why"]
    assert trial["launches"] == []
    measured.assert_known_good()


def test_a_missing_program_is_said_with_what_to_do(lab: "RealLab") -> None:
    (lab.root / "knowngood.toml").write_text(
        '[server]\nengine = "openai"\ncommand = ["/no/such/server"]\nport = 1\n[guards]\nanswers = "off"\n'
    )
    done = lab.run("baseline", "--json")
    assert done.status in (1, 2), done
    assert "/no/such/server" in done.json["message"]
    assert done.json["hint"]


def test_an_unknown_key_names_the_nearest(lab: "RealLab") -> None:
    text = (lab.root / "knowngood.toml").read_text().replace("ready_timeout", "ready_timeuot")
    (lab.root / "knowngood.toml").write_text(text)
    done = lab.run("status")
    assert done.status == 2, done
    assert "ready_timeuot" in done.err
    assert "ready_timeout" in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[change]]\nedit = "pace.txt"\nfind = "e"\nreplace = "x"\n', "occurs"),
        ('[[change]]\npatch = "bad.patch"\nroot = "."\n', "does not apply"),
        ('[[change]]\nedit = "nowhere.txt"\nfind = "e"\nreplace = "x"\n', "no file"),
    ],
)
def test_a_change_that_does_not_apply_changes_nothing(measured: "RealLab", text: str, words: str) -> None:
    diff = "--- a/pace.txt\n+++ b/pace.txt\n@@ -1 +1 @@\n-11 ms between tokens\n+5 ms between tokens\n"
    (measured.root / "bad.patch").write_text(diff)
    done = measured.run("try", measured.experiment("bad", text), "--json")
    assert done.status == 2, done
    assert words in done.json["message"]
    assert measured.pace.read_text() == "10 ms between tokens\n"
    measured.assert_known_good()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize(("size", "words"), [(8192, "No space left"), (12288, "disk")])
def test_a_full_disk_is_said(measured: "RealLab", size: int, words: str) -> None:
    """With 8192 bytes taken there is room for the server's log and none for samples; with 12288 for neither."""
    runs = measured.root / ".knowngood" / "runs"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "knowngood-test", str(runs)], check=True)
    try:
        (runs / "filler").write_bytes(b"x" * size)
        done = measured.run("try", measured.experiment("faster", FASTER), "--json")
    finally:
        subprocess.run(["umount", str(runs)], check=True)
    assert done.status in (1, 5), done
    assert words in done.out, done
    assert measured.pace.read_text() == "10 ms between tokens\n"
    measured.assert_known_good()


@pytest.mark.parametrize("delay", [0.4, 0.7, 1.0, 1.6, 2.4])
def test_ctrl_c_at_any_stage_leaves_a_known_good_host(measured: "RealLab", delay: float) -> None:
    before = measured.pace.read_bytes()
    with measured.start("try", measured.experiment("faster", FASTER)) as trying:
        time.sleep(delay)
        trying.send_signal(signal.SIGINT)
        done = measured.finish(trying)
    assert done.status == 5, done
    assert "interrupted" in done.err.lower() or "SIGINT" in done.err
    assert "Traceback" not in done.err
    assert measured.pace.read_bytes() == before
    measured.assert_known_good()


@pytest.mark.parametrize("delay", [0.7, 1.2, 1.8])
def test_killed_anywhere_the_next_command_says_so_and_recover_puts_it_right(measured: "RealLab", delay: float) -> None:
    before = measured.pace.read_bytes()
    name = measured.experiment("faster", FASTER)
    with measured.start("try", name) as trying:
        time.sleep(delay)
        trying.kill()
        trying.communicate(timeout=10)
    status = measured.run("status", "--json")
    if status.status == 3:
        assert status.json["status"]["left_over"]
        assert measured.run("try", name).status == 3
        recovered = measured.run("recover", "--json")
        assert recovered.status == 0, recovered
        assert recovered.json["did"]
    assert measured.pace.read_bytes() == before
    measured.assert_known_good()
    assert measured.run("try", name).status == 0


def test_a_server_that_never_becomes_ready_is_told_apart(lab: "RealLab") -> None:
    for body, words in (
        ("while True: print('loading', flush=True); time.sleep(0.1)", "still progressing"),
        ("raise SystemExit('CUDA out of memory')", "exit status 1"),
    ):
        script = lab.root / "server.py"
        script.write_text(f"import time\n{body}\n")
        text = (lab.root / "knowngood.toml").read_text().replace("30s", "3s")
        (lab.root / "knowngood.toml").write_text(text)
        begun = time.monotonic()
        done = lab.run("baseline", "--json")
        assert done.status == 1, done
        assert words in done.json["message"]
        assert time.monotonic() - begun < 30
        assert lab.servers() == []
        lab.run("recover")


def test_a_second_command_on_a_busy_host_is_told_who_holds_it(measured: "RealLab") -> None:
    name = measured.experiment("faster", FASTER)
    with measured.start("try", name) as trying:
        measured.wait_for_server()
        second = measured.run("try", name, "--json")
        assert second.status == 5, second
        assert second.json["error"] == "Busy"
        assert str(trying.pid) in second.json["message"]
        status = measured.run("status", "--json")
        assert status.status == 0, status
        assert str(trying.pid) in status.json["status"]["running"]
        measured.finish(trying)
