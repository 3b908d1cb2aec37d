"""A private ``sshd`` on the loopback, so that ``ssh`` reaches this machine as if it were another one. Needs no root."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "knowngood-loopback"
START_S = 20.0


def find_sshd() -> str | None:
    """Path of the server program; None if it is not installed."""
    return shutil.which("sshd", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))


@contextmanager
def loopback(folder: Path, *, env: Mapping[str, str] | None = None, port_seen: int = 0) -> Generator[Path]:
    """Run an sshd with a host key, a user key and a configuration of its own.

    Args:
        folder: Empty directory for all of it.
        env: Variables that sessions get.
        port_seen: Port that clients are told, for a proxy in between; 0 for the server's own.

    Yields:
        A directory for the front of ``PATH``: its ``ssh`` knows the host by the name ``knowngood-loopback``.

    Raises:
        FileNotFoundError: There is no sshd on this machine.
        TimeoutError: It does not start.
    """
    program = find_sshd()
    if program is None or shutil.which("ssh") is None:
        raise FileNotFoundError("sshd, or ssh")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    port = free_port()
    command = [program, "-D", "-E", str(folder / "sshd.log"), "-f", str(write_server_config(folder, port, env or {}))]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield write_client(folder, port_seen or port)
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_server_config(folder: Path, port: int, env: Mapping[str, str]) -> Path:
    """The server's configuration."""
    if os.geteuid() == 0:
        # Where sshd, run as root, hides its unprivileged half.
        with suppress(OSError):
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    lines = [
        f"ListenAddress 127.0.0.1:{port}",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/authorized_keys",
        "PidFile none",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "StrictModes no",
        "PermitRootLogin prohibit-password",
        "UsePAM no",
        "MaxStartups 100",
    ]
    if env:
        # One line, because of several only the first counts.
        lines.append("SetEnv " + " ".join(f'"{name}={value}"' for name, value in env.items()))
    path = folder / "sshd_config"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_client(folder: Path, port: int) -> Path:
    """The client's configuration, and an ``ssh`` that uses it and nothing of the user's."""
    key = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key[0]} {key[1]}\n")
    lines = [
        f"Host {NAME}",
        "HostName 127.0.0.1",
        f"Port {port}",
        f"User {getpass.getuser()}",
        f"IdentityFile {folder}/user_key",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {folder}/known_hosts",
        "GlobalKnownHostsFile none",
        "LogLevel ERROR",
    ]
    (folder / "ssh_config").write_text("\n".join(lines) + "\n")
    found = shutil.which("ssh")
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {found} -F {folder}/ssh_config "$@"\n')
    (programs / "ssh").chmod(0o755)
    return programs


def wait_for(port: int) -> None:
    """Wait until somebody listens.

    Raises:
        TimeoutError: Nobody does.
    """
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nobody listens on port {port}")
