from pathlib import Path

import pytest

from knowngood.app.tools import open_host
from knowngood.config.lab import load_lab
from knowngood.errors import UsageError
from knowngood.ports import Host

SERVER = '[server]\nengine = "openai"\ncommand = ["x"]\n'


def host(folder: Path, text: str) -> Host:
    (folder / "knowngood.toml").write_text(text + SERVER)
    return open_host(load_lab(folder))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", "local"),
        ('[host]\naddress = "ssh://gpu1"\n', "ssh://gpu1"),
        (
            '[host]\naddress = "ssh://ada@gpu1"\nthrough = ["docker", "exec", "-i", "c"]\n',
            "ssh://ada@gpu1 docker exec -i c",
        ),
        ('[host]\nthrough = ["docker", "exec", "-i", "c"]\n', "docker exec -i c"),
    ],
)
def test_a_host_is_opened_without_being_reached(tmp_path: Path, text: str, address: str) -> None:
    assert host(tmp_path, text).address == address


@pytest.mark.parametrize("address", ["gpu1", "ftp://gpu1", "ssh://", "ssh://-oProxyCommand=x"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        host(tmp_path, f'[host]\naddress = "{address}"\n')


def test_a_lease_that_is_too_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ttl"):
        host(tmp_path, '[lease]\nttl = "0.5s"\n')
