"""System calls on files, each behind one method, so that a test can record, fail or cut off every single one."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import stat
import struct
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOREPLACE = 1
EXCHANGE = 2
OTHER = "other"
AT_FDCWD = -100
RENAMEAT2_NUMBER = {"x86_64": 316, "aarch64": 276, "ppc64le": 357, "s390x": 347, "riscv64": 276}
FS_IOC_GETFLAGS = 0x80086601
IMMUTABLE_OR_APPEND = 0x10 | 0x20
UNSUPPORTED = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSUP))


class Meta(NamedTuple):
    """What has to come back beside the bytes.

    Attributes:
        mode: Permission bits.
        uid: Owner.
        gid: Group.
        mtime_ns: Time of the last change of the bytes, in nanoseconds.
        xattr: Extended attributes, ACLs and capabilities among them: name to value in hex.
    """

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    xattr: dict[str, str]


class Irregular(OSError):
    """Something stands there that is no regular file."""


class Disk:
    """The file system. ``CHANGES`` names the methods that alter it; a test replaces them to inject faults."""

    CHANGES = (
        "create",
        "write",
        "chown",
        "chmod",
        "set_xattr",
        "remove_xattr",
        "set_mtime",
        "fsync",
        "rename",
        "rename_flags",
        "link",
        "unlink",
        "mkdir",
        "rmdir",
    )
    threads = 8

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def read(self, path: str) -> tuple[bytes, os.stat_result] | None:
        """Bytes and status of a regular file; None if nothing stands there.

        Raises:
            Irregular: A directory, symbolic link, device, socket or pipe stands there.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise Irregular(error.errno, "not a regular file", path) from error
            raise
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise Irregular(errno.EINVAL, "not a regular file", path)
            parts: list[bytes] = []
            while True:
                part = os.read(fd, 1 << 20)
                if not part:
                    return b"".join(parts), status
                parts.append(part)
        finally:
            os.close(fd)

    def names(self, directory: str) -> list[str]:
        """Sorted names in a directory; none if there is no such directory."""
        try:
            return sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def status(self, path: str) -> os.stat_result | None:
        """Status of what stands at a path, links not followed; None for nothing."""
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def xattrs(self, target: str | int) -> dict[str, str]:
        """Extended attributes of a path or descriptor, values in hex; none where the file system has none."""
        follow = isinstance(target, int)
        try:
            found = os.listxattr(target, follow_symlinks=follow)
            return {name: os.getxattr(target, name, follow_symlinks=follow).hex() for name in found}
        except OSError as error:
            if error.errno in UNSUPPORTED:
                return {}
            raise

    def space(self, directory: str) -> tuple[int, bool]:
        """Bytes that may still be written on a directory's file system, and whether it is read-only."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize, bool(found.f_flag & os.ST_RDONLY)

    def writable(self, directory: str) -> bool:
        """Tell whether names in a directory may be changed."""
        return os.access(directory, os.W_OK | os.X_OK)

    def mounts(self) -> frozenset[str]:
        """Mount points that this process sees."""
        try:
            with open("/proc/self/mountinfo", "rb") as lines:
                points = [line.split(b" ")[4] for line in lines]
        except OSError:
            return frozenset()
        octal = {b"\\040": b" ", b"\\011": b"\t", b"\\012": b"\n", b"\\134": b"\\"}
        for code, char in octal.items():
            points = [point.replace(code, char) for point in points]
        return frozenset(os.fsdecode(point) for point in points)

    def immutable(self, path: str) -> bool:
        """Tell whether a file carries the immutable or the append-only flag (``chattr``)."""
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            answer = fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(8))
        except OSError:
            return False
        finally:
            os.close(fd)
        return bool(struct.unpack("l", answer)[0] & IMMUTABLE_OR_APPEND)

    def open_directory(self, path: str) -> int:
        """Descriptor of a directory, to be synced."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def create(self, path: str) -> int:
        """Create a file that must not exist, readable by its owner only; return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: memoryview) -> int:
        """Write some of the bytes; return how many."""
        return os.write(fd, data)

    def chown(self, fd: int, uid: int, gid: int) -> None:
        """Set owner and group."""
        os.fchown(fd, uid, gid)

    def chmod(self, fd: int, mode: int) -> None:
        """Set the permission bits."""
        os.fchmod(fd, mode)

    def set_xattr(self, fd: int, name: str, value: bytes) -> None:
        """Set an extended attribute."""
        os.setxattr(fd, name, value)

    def remove_xattr(self, fd: int, name: str) -> None:
        """Take an extended attribute away."""
        os.removexattr(fd, name)

    def set_mtime(self, target: str | int, mtime_ns: int) -> None:
        """Set the time of the last change of a path or descriptor."""
        os.utime(target, ns=(mtime_ns, mtime_ns))

    def fsync(self, fd: int) -> None:
        """Wait until a file's bytes, or a directory's names, are on the disk."""
        os.fsync(fd)

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing what stands at the new name."""
        os.rename(old, new)

    def rename_flags(self, old: str, new: str, flags: int) -> None:
        """``renameat2(2)``: exchange two names, or rename only onto a free one."""
        names = (ctypes.c_char_p(os.fsencode(old)), ctypes.c_char_p(os.fsencode(new)))
        if hasattr(self._libc, "renameat2"):
            failed = self._libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], flags)
        elif os.uname().machine in RENAMEAT2_NUMBER:
            number = RENAMEAT2_NUMBER[os.uname().machine]
            failed = self._libc.syscall(number, AT_FDCWD, names[0], AT_FDCWD, names[1], flags)
        else:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), old)
        if failed:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), old, None, new)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, which must be free."""
        os.link(old, new, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """Take a name away."""
        os.unlink(path)

    def mkdir(self, path: str, mode: int) -> None:
        """Create a directory."""
        os.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def digest(disk: Disk, path: str) -> str | None:
    """SHA-256 of a regular file; None for nothing, ``other`` for anything else."""
    try:
        found = disk.read(path)
    except Irregular:
        return OTHER
    return None if found is None else sha256(found[0])


def meta_of(disk: Disk, path: str, status: os.stat_result) -> Meta:
    """What has to come back beside the bytes of a file."""
    return Meta(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns, disk.xattrs(path))


def is_same_file(disk: Disk, one: str, other: str) -> bool:
    """Tell whether two names lead to one inode."""
    a, b = disk.status(one), disk.status(other)
    return a is not None and b is not None and (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def write_new(disk: Disk, path: str, data: bytes, meta: Meta | None = None) -> int:
    """Create a file with these bytes and this metadata; return its descriptor, which ``barrier`` syncs and closes."""
    fd = disk.create(path)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[disk.write(fd, rest) :]
        if meta is not None:
            dress(disk, fd, meta)
    except BaseException:
        disk.close(fd)
        raise
    return fd


def dress(disk: Disk, fd: int, meta: Meta) -> None:
    """Give a new file its owner, mode, attributes and time, in the one order in which none undoes another."""
    status = os.fstat(fd)
    if (meta.uid, meta.gid) != (status.st_uid, status.st_gid):
        disk.chown(fd, meta.uid, meta.gid)
    have = disk.xattrs(fd)
    # A directory's default ACL is inherited by every new file in it, whether or not the original had one.
    for name in sorted(set(have) - set(meta.xattr)):
        disk.remove_xattr(fd, name)
    # Changing the owner clears the set-user-id bit, so the mode comes after it; an ACL carries the mode's group bits.
    disk.chmod(fd, meta.mode)
    for name, value in sorted(meta.xattr.items()):
        if have.get(name) != value:
            disk.set_xattr(fd, name, bytes.fromhex(value))
    disk.set_mtime(fd, meta.mtime_ns)


def barrier(disk: Disk, fds: Sequence[int], directories: Iterable[str] = ()) -> None:
    """Wait until files and names are durable; close the files. The first failure wins and is never retried.

    All are synced at once, because the file system's journal commits them together.
    Source: PostgreSQL's fsync errors of 2018: after a failed fsync a second one may succeed without the bytes.
    """
    todo = list(fds)
    errors: list[OSError] = []
    try:
        todo.extend(disk.open_directory(path) for path in sorted(set(directories)))
        first_directory = len(fds)

        def sync(numbers: range) -> None:
            for number in numbers:
                try:
                    disk.fsync(todo[number])
                except OSError as error:
                    if number < first_directory or error.errno not in UNSUPPORTED:
                        errors.append(error)

        lanes = min(disk.threads, len(todo))
        others = [threading.Thread(target=sync, args=(range(n, len(todo), lanes),)) for n in range(1, lanes)]
        for thread in others:
            thread.start()
        if lanes:
            sync(range(0, len(todo), lanes))
        for thread in others:
            thread.join()
    finally:
        for fd in todo:
            disk.close(fd)
    if errors:
        raise errors[0]


def spare(hold: str) -> str:
    """Third name that stands in for an exchange where the file system has none."""
    return hold + "x"


def exchange(disk: Disk, hold: str, path: str) -> None:
    """Exchange two names.

    Where the file system cannot (NFS, old ZFS, some FUSE) three renames do it, and ``settle`` finishes them after a
    crash; there, and only there, a foreign edit can be lost if it falls between the second and the third call.
    """
    try:
        disk.rename_flags(hold, path, EXCHANGE)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    else:
        return
    disk.link(path, spare(hold))
    disk.rename(hold, path)
    disk.rename(spare(hold), hold)


def settle(disk: Disk, hold: str) -> None:
    """Finish, or forget, an exchange without the system call that was cut off."""
    if disk.status(spare(hold)) is None:
        return
    if disk.status(hold) is None:
        disk.rename(spare(hold), hold)
    else:
        disk.unlink(spare(hold))


def move(disk: Disk, old: str, new: str) -> None:
    """Rename onto a name that must be free.

    Raises:
        FileExistsError: Something stands there.
    """
    try:
        disk.rename_flags(old, new, NOREPLACE)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    else:
        return
    disk.link(old, new)
    disk.unlink(old)
