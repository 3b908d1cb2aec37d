"""A machine reached over a real sshd, and one reached through a command, pass the suite of their port."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowngood.hosts.ssh import SshHost
from knowngood.ports import Host
from knowngood.testing.host_suite import HostSuite
from knowngood.testing.loopback import NAME, find_sshd, loopback


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Directory with an ``ssh`` that knows a private sshd on this machine."""
    if find_sshd() is None:
        pytest.skip("NOT TESTED: there is no sshd on this machine (apt-get install openssh-server)")
    with loopback(tmp_path_factory.mktemp("sshd")) as folder:
        yield folder


@pytest.fixture
def hosts() -> Iterator[list[SshHost]]:
    """Hosts that are let go after the test."""
    made: list[SshHost] = []
    yield made
    for host in made:
        host.close()


class TestOverSsh(HostSuite):
    @pytest.fixture
    def make_host(
        self, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[SshHost]
    ) -> Callable[[], Host]:
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

        def make() -> Host:
            hosts.append(SshHost(NAME, state=str(tmp_path / "state")))
            return hosts[-1]

        return make


class TestThroughACommand(HostSuite):
    """``env`` stands in for ``docker exec -i NAME``: it takes a program and its arguments, and runs them elsewhere."""

    @pytest.fixture
    def make_host(self, tmp_path: Path, hosts: list[SshHost]) -> Callable[[], Host]:
        def make() -> Host:
            prefix = ("sh", "-c", 'echo Welcome; printf noise; exec "$@"', "elsewhere")
            hosts.append(SshHost(prefix=prefix, state=str(tmp_path / "state")))
            return hosts[-1]

        return make
