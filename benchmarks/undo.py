"""How long does it take to change two files on a host, be sure of it, and take it back? And what if it is cut off?

Applies one edit to each of two files of 150 KB and verifies their digests, then reverts: on this machine, over a
private sshd on the loopback, and over the same with a delay in between. Beside it what people use: ``sed -i``, ``git
apply``, Ansible and pyinfra. Then every tool's client is killed at random moments; the states it leaves are counted.

    python benchmarks/undo.py [--ansible DIR] [--pyinfra DIR] [--repeat 20] [--cuts 40] [--delay-ms 20]

DIR holds the programs of that tool. A tool that is not there is left out.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from knowngood.hosts.local import LocalHost
from knowngood.hosts.ssh import SshHost
from knowngood.model.files import FileEdit
from knowngood.testing.loopback import NAME, free_port, loopback

OLD, NEW = b"PROTO = 1", b"PROTO = 2"
PADDING = "".join(f"# line {number}, some padding so that a file has a real size\n" for number in range(2600)).encode()
NAMES = ("f0.txt", "f1.txt")


class Room:
    """Two files in a git work tree, and what they should be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.reset()
        git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "old"], check=True)
        for path in self.paths:
            path.write_bytes(content(NEW))
        self.patch = subprocess.run([*git, "diff"], capture_output=True, check=True).stdout
        self.reset()

    @property
    def paths(self) -> list[Path]:
        """Both files."""
        return [self.folder / name for name in NAMES]

    def reset(self) -> None:
        """Put the old version there."""
        for path in self.paths:
            path.unlink(missing_ok=True)
            path.write_bytes(content(OLD))

    def shows(self) -> str:
        """``old``, ``new``, ``mixed``, or ``torn`` if a file is missing or no version at all."""
        known = {content(OLD): "old", content(NEW): "new"}
        found = {known.get(path.read_bytes(), "torn") if path.exists() else "torn" for path in self.paths}
        return "torn" if "torn" in found else found.pop() if len(found) == 1 else "mixed"

    def edits(self) -> list[FileEdit]:
        """From the old version to the new one."""
        before = hashlib.sha256(content(OLD)).hexdigest()
        return [FileEdit(path=str(path), before=before, after=content(NEW)) for path in self.paths]


def content(version: bytes) -> bytes:
    return version + b"\n" + PADDING


class Tool:
    """One way to change the files.

    Args:
        name: For the table.
        apply: Changes both files and verifies them.
        revert: Takes that back.
        end: Called at the end.
    """

    def __init__(
        self, name: str, apply: Callable[[], object], revert: Callable[[], object], end: Callable[[], object] = list
    ) -> None:
        self.name, self.apply, self.revert, self.end = name, apply, revert, end


def command_tool(name: str, apply: Sequence[str], revert: Sequence[str], *, text: bytes = b"") -> Tool:
    """A tool that is one command each way."""
    return Tool(name, lambda: run(apply, text), lambda: run(revert, text))


def run(command: Sequence[str], text: bytes = b"") -> None:
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {(done.stdout + done.stderr).decode()[-600:]}")


def journal_tool(name: str, host: LocalHost | SshHost, room: Room) -> Tool:
    """Us; its answer to apply says what stands on the host now, read back and hashed there."""
    last = [""]

    def apply() -> None:
        last[0] = secrets.token_hex(8)
        done = host.journal.apply(last[0], room.edits())
        expected = hashlib.sha256(content(NEW)).hexdigest()
        if set(done.files.values()) != {expected}:
            raise RuntimeError(str(done))

    return Tool(name, apply, lambda: host.journal.revert(last[0]), host.close if isinstance(host, SshHost) else list)


def cold_tool(room: Room, state: Path) -> Tool:
    """Us, with no connection before."""

    def once(verb: str) -> None:
        host = SshHost(NAME, state=str(state))
        if verb == "apply":
            last[0] = secrets.token_hex(8)
            host.journal.apply(last[0], room.edits())
        else:
            host.journal.revert(last[0])
        host.close()

    last = [""]
    return Tool("knowngood, connection included", lambda: once("apply"), lambda: once("revert"))


def shell_words(room: Room) -> dict[str, tuple[str, str]]:
    """Tool to what a shell on the host is told, each way; each verifies digests as knowngood does."""
    files = " ".join(NAMES)
    expected = "".join(f"{hashlib.sha256(content(NEW)).hexdigest()}  {name}\\n" for name in NAMES)
    check = f"printf '{expected}' | sha256sum -c --quiet"
    here = f"cd {room.folder}"
    return {
        "sed -i": (
            f"{here} && sed -i 's/^{OLD.decode()}$/{NEW.decode()}/' {files} && {check}",
            f"{here} && sed -i 's/^{NEW.decode()}$/{OLD.decode()}/' {files}",
        ),
        "git apply": (f"{here} && git apply - && {check}", f"{here} && git apply -R -"),
    }


def local_tools(room: Room, state: Path) -> Iterator[Tool]:
    yield journal_tool("**knowngood**", LocalHost(state), room)
    for name, (apply, revert) in shell_words(room).items():
        yield command_tool(name, ("sh", "-c", apply), ("sh", "-c", revert), text=room.patch)


def far_tools(room: Room, state: Path, scratch: Path, programs: dict[str, str]) -> Iterator[Tool]:
    host = SshHost(NAME, state=str(state))
    host.holder()
    yield journal_tool("**knowngood**", host, room)
    yield cold_tool(room, state)
    master = ("ssh", "-o", "ControlMaster=auto", "-o", f"ControlPath={scratch}/cm", "-o", "ControlPersist=60")
    for name, (apply, revert) in shell_words(room).items():
        yield command_tool(f"{name} over ssh", ("ssh", NAME, apply), ("ssh", NAME, revert), text=room.patch)
        shared = command_tool(
            f"{name} over ssh, ControlMaster", (*master, NAME, apply), (*master, NAME, revert), text=room.patch
        )
        shared.end = lambda: subprocess.run([*master, "-O", "exit", NAME], capture_output=True, check=False)
        yield shared
    if "ansible" in programs:
        yield ansible_tool(room, scratch, programs["ansible"])
    if "pyinfra" in programs:
        yield pyinfra_tool(room, scratch, programs["pyinfra"])


def ansible_tool(room: Room, scratch: Path, programs: str) -> Tool:
    """Two ``replace`` tasks, with pipelining and a connection that persists: as fast as Ansible goes."""
    config = Path(shutil.which("ssh") or "").parent.parent / "ssh_config"
    os.environ.update(
        ANSIBLE_HOME=str(scratch),
        ANSIBLE_PIPELINING="1",
        ANSIBLE_SSH_ARGS=f"-F {config} -o ControlMaster=auto -o ControlPersist=60",
    )
    for name, old, new in (("apply", OLD, NEW), ("revert", NEW, OLD)):
        tasks = [
            {"ansible.builtin.replace": {"path": str(path), "regexp": f"^{old.decode()}$", "replace": new.decode()}}
            for path in room.paths
        ]
        play = {
            "hosts": "all",
            "gather_facts": False,
            "vars": {"ansible_python_interpreter": "/usr/bin/python3"},
            "tasks": tasks,
        }
        (scratch / f"{name}.json").write_text(json.dumps([play]))
    command = (f"{programs}/ansible-playbook", "-i", f"{NAME},")
    return command_tool(
        "ansible, two `replace`", (*command, f"{scratch}/apply.json"), (*command, f"{scratch}/revert.json")
    )


def pyinfra_tool(room: Room, scratch: Path, programs: str) -> Tool:
    """Two ``files.replace`` operations."""
    folder = Path(shutil.which("ssh") or "").parent.parent
    settings = {
        "ssh_config_file": f"{folder}/ssh_config",
        "ssh_known_hosts_file": f"{folder}/known_hosts",
        "ssh_strict_host_key_checking": "yes",
    }
    (scratch / "inventory.py").write_text(f"hosts = [({NAME!r}, {settings!r})]\n")
    for name, old, new in (("apply", OLD, NEW), ("revert", NEW, OLD)):
        lines = [
            f"files.replace(path={str(path)!r}, text={old.decode()!r}, replace={new.decode()!r})" for path in room.paths
        ]
        (scratch / f"{name}.py").write_text("\n".join(["from pyinfra.operations import files", *lines]) + "\n")
    command = (f"{programs}/pyinfra", "-y", f"{scratch}/inventory.py")
    return command_tool(
        "pyinfra, two `files.replace`", (*command, f"{scratch}/apply.py"), (*command, f"{scratch}/revert.py")
    )


def measure(tool: Tool, room: Room, repeat: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each apply and each revert; the first of both is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    room.reset()
    for number in range(repeat + 1):
        for (action, expected), kept in zip(((tool.apply, "new"), (tool.revert, "old")), times, strict=True):
            begun = time.perf_counter()
            action()
            took = (time.perf_counter() - begun) * 1000
            if room.shows() != expected:
                raise RuntimeError(f"{tool.name}: the files are {room.shows()}, not {expected}")
            if number:
                kept.append(took)
    tool.end()
    return times


def show(title: str, tools: Iterator[Tool], room: Room, repeat: int) -> None:
    print(f"\n{title}:\n")
    print("| tool | apply + verify, best | median | revert, best | median |\n|---|--:|--:|--:|--:|")
    for tool in tools:
        slow = any(word in tool.name for word in ("ansible", "pyinfra"))
        applied, reverted = measure(tool, room, min(repeat, 5) if slow else repeat)
        cells = [f"{pick(kept):.1f}" for kept in (applied, reverted) for pick in (min, statistics.median)]
        print(f"| {tool.name} | {' | '.join(cells)} |", flush=True)


def cut_once(tool: Tool, room: Room, delay_s: float) -> str:
    """Have a child apply, kill it and everything it started after a while; say what it leaves behind."""
    room.reset()
    child = os.fork()
    if child == 0:
        os.setsid()
        with suppress(BaseException):
            tool.apply()
        os._exit(0)
    time.sleep(delay_s)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    # What runs on at the far end is given its time.
    time.sleep(0.5)
    return room.shows()


def cut(tools: Iterator[Tool], room: Room, state: Path, cuts: int) -> None:
    """Kill every tool's client at moments spread evenly over its work."""
    print("\n| client killed at random | old | new | mixed | torn |\n|---|--:|--:|--:|--:|")
    rng = random.Random(0)  # noqa: S311 - moments, no secrets
    for tool in tools:
        if "ControlMaster" in tool.name or tool.name.startswith("**"):
            tool.end()
            continue
        begun = time.perf_counter()
        room.reset()
        tool.apply()
        length = time.perf_counter() - begun
        tool.end()
        found: Counter[str] = Counter()
        for _ in range(cuts):
            found[cut_once(tool, room, rng.uniform(0, length))] += 1
            LocalHost(state).journal.recover()
        print(
            f"| {tool.name} | {' | '.join(str(found[what]) for what in ('old', 'new', 'mixed', 'torn'))} |", flush=True
        )


@contextmanager
def delayed(target: int, delay_s: float) -> Generator[int]:
    """A proxy that holds every byte back for a while, each way; yields its port."""
    port = free_port()
    loop = asyncio.new_event_loop()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 16):
            loop.call_later(delay_s, writer.write, part)
        loop.call_later(delay_s, writer.close)

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(carry(reader, back), carry(there, writer), return_exceptions=True)

    async def start() -> None:
        await asyncio.start_server(meet, "127.0.0.1", port)

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield port
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--cuts", type=int, default=40)
    parser.add_argument("--delay-ms", type=float, default=20.0, help="each way")
    for tool in ("ansible", "pyinfra"):
        parser.add_argument(f"--{tool}", metavar="DIR", default="")
    options = parser.parse_args()
    programs = {name: found for name in ("ansible", "pyinfra") if (found := getattr(options, name))}
    usual = os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="knowngood-undo-") as folder:
        scratch = Path(folder)
        room, state = Room(scratch / "srv"), scratch / "state"
        show("On this machine", local_tools(room, state), room, options.repeat)
        with loopback(scratch / "sshd") as client:
            port = int((scratch / "sshd/ssh_config").read_text().partition("Port ")[2].split()[0])
            os.environ["PATH"] = f"{client}:{usual}"
            show("Over ssh, loopback", far_tools(room, state, scratch, programs), room, options.repeat)
            if options.cuts:
                cut(far_tools(room, state, scratch, programs), room, state, options.cuts)
            with delayed(port, options.delay_ms / 1000) as slow:
                use_port(scratch / "sshd", port, slow)
                title = f"Over ssh, {2 * options.delay_ms:g} ms round trip"
                show(title, far_tools(room, state, scratch, programs), room, options.repeat)


def use_port(folder: Path, old: int, new: int) -> None:
    """Let the client go through the proxy."""
    for name in ("ssh_config", "known_hosts"):
        path = folder / name
        path.write_text(path.read_text().replace(str(old), str(new)))


if __name__ == "__main__":
    main()
