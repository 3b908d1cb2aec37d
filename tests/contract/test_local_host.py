"""The machine at hand passes the suite of its port."""

from collections.abc import Callable
from pathlib import Path

import pytest

from knowngood.hosts.local import LocalHost
from knowngood.ports import Host
from knowngood.testing.host_suite import HostSuite


class TestLocalHost(HostSuite):
    @pytest.fixture
    def make_host(self, tmp_path: Path) -> Callable[[], Host]:
        return lambda: LocalHost(tmp_path / "state")
