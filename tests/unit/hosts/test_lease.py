import os
import stat
from pathlib import Path

import pytest

from knowngood.errors import Busy, HostError
from knowngood.hosts import lease


def test_the_file_is_for_everybody_and_says_who(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lease.hold(path, "a trial"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        fd = os.open(path, os.O_RDONLY)
        holder = lease.read_holder(fd)
        os.close(fd)
        assert holder
        assert (holder.pid, holder.purpose) == (os.getpid(), "a trial")
    assert path.read_bytes() == b""


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError, match="cannot be opened"), lease.hold(tmp_path / "lock", "x"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_that_is_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError), lease.hold(tmp_path, "x"):
        pass


def test_it_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lease.hold(tmp_path / "lock", "x"):
        raise ZeroDivisionError
    with lease.hold(tmp_path / "lock", "y"):
        pass


def test_a_holder_without_a_note_is_busy_all_the_same() -> None:
    assert isinstance(lease.busy(None), Busy)


def test_root_and_users_share_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    private, shared = tmp_path / "private", tmp_path / "shared"
    private.mkdir(mode=0o755)
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(lease, "SHARED", (tmp_path / "missing", private, shared))
    assert lease.shared_path() == shared / lease.NAME
