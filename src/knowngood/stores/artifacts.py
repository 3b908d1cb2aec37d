"""Raw samples and logs, by the SHA-256 of their bytes."""

import hashlib
import os
import tempfile
from pathlib import Path

from knowngood.errors import NotFound, StoreError


class ArtifactFolder:
    """A content-addressed folder: ``ab/abcdef…``; files in it never change.

    Args:
        root: The folder; created by the first ``put``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, content: Path | bytes) -> str:
        """Take bytes, or a file's bytes, in and return their SHA-256.

        Raises:
            StoreError: They cannot be read or written.
        """
        try:
            data = content if isinstance(content, bytes) else content.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            target = self.place(digest)
            if target.exists():
                return digest
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(target)
        except OSError as error:
            raise StoreError(f"an artifact cannot be kept: {error}", hint="is the disk full or read-only?") from error
        return digest

    def path(self, digest: str) -> Path:
        """Where the bytes lie.

        Raises:
            NotFound: There is no such artifact.
        """
        found = self.place(digest)
        if not digest or not found.is_file():
            raise NotFound(f"there is no artifact {digest!r} in {self.root}", hint="was the lab's folder copied whole?")
        return found

    def place(self, digest: str) -> Path:
        """Where the bytes of a digest belong."""
        return self.root / digest[:2] / digest
