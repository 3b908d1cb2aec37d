"""The known-good state as files that work without knowngood."""

import shlex
from collections.abc import Callable
from typing import Literal, cast

from knowngood.errors import UsageError
from knowngood.flow.bench import Bench
from knowngood.flow.server import which
from knowngood.model.baseline import Baseline
from knowngood.model.launch import LaunchSpec
from knowngood.reason.patches import file_diff, is_text

Form = Literal["script", "systemd", "compose"]
Files = dict[str, tuple[bytes, int]]
"""File name to content and mode."""

RUN = 0o755
READ = 0o644


def render(bench: Bench, *, form: str) -> Files:
    """Write the known-good state down.

    Args:
        bench: The lab's tools.
        form: ``script``, ``systemd`` or ``compose``.

    Returns:
        The launch in the form asked for; with kept file changes also a patch against the files as they were first.

    Raises:
        UsageError: There is no baseline yet.
    """
    baseline = bench.memory.state.baseline
    if baseline is None:
        raise UsageError("this lab has no baseline yet", hint="run `knowngood baseline` first")
    spec = bench.engine.resolve(baseline.spec, which=lambda name: which(bench, name))
    name, writer, mode = FORMS[cast("Form", form)]
    files: Files = {name: (writer(spec, baseline).encode(), mode)}
    if baseline.settings:
        files["settings.sh"] = (settings_script(bench, baseline).encode(), RUN)
    patch, whole = changed_files(bench, baseline)
    if patch:
        files["files.patch"] = (patch, READ)
    return files | whole


def head(baseline: Baseline) -> str:
    """Comment that says what a file is."""
    kept = f", with {', '.join(baseline.kept)} kept" if baseline.kept else ""
    lines = [f"# Known-good baseline {baseline.version}{kept}. Written by knowngood export."]
    if baseline.pins:
        lines.append(
            f"# Pinned: {', '.join(baseline.pins)}. PYTHONPATH names the overlays; the wheels lie beside them."
        )
    if baseline.settings:
        lines.append("# Run settings.sh first, as root, and after every reboot.")
    if baseline.transactions:
        lines.append("# Apply files.patch first, from the root directory: patch -p1 -d / < files.patch")
    return "\n".join(lines)


def settings_script(bench: Bench, baseline: Baseline) -> str:
    """A shell script that sets what the keeps have set."""
    trials = (bench.memory.state.trials[trial] for trial in baseline.kept)
    last = {one.name: one for trial in trials for one in trial.hypothesis.changes.settings()}
    lines = ["#!/bin/sh", head(baseline), "set -eu"]
    for setting in last.values():
        if setting.path:
            lines.append(f"echo {shlex.quote(setting.value)} > {shlex.quote(setting.path)}")
        else:
            lines.append(shlex.join(word.replace("{value}", setting.value) for word in setting.write))
    return "\n".join([*lines, ""])


def script(spec: LaunchSpec, baseline: Baseline) -> str:
    """A shell script that becomes the server."""
    lines = ["#!/bin/sh", head(baseline), "set -eu"]
    lines += [f"cd {shlex.quote(spec.cwd)}"] if spec.cwd else []
    lines += [f"unset {name}" for name in spec.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(spec.env.items())]
    argv = " \\\n    ".join(shlex.quote(word) for word in spec.argv)
    return "\n".join([*lines, f'exec {argv} "$@"', ""])


def systemd(spec: LaunchSpec, baseline: Baseline) -> str:
    """A systemd unit."""
    lines = [
        head(baseline),
        "[Unit]",
        "Description=LLM inference server, known-good",
        "After=network.target",
        "",
        "[Service]",
    ]
    lines += [f"WorkingDirectory={spec.cwd.replace('%', '%%')}"] if spec.cwd else []
    lines += [f"Environment={systemd_word(f'{name}={value}')}" for name, value in sorted(spec.env.items())]
    lines += [f"UnsetEnvironment={name}" for name in spec.unset]
    lines += [f"ExecStart={' '.join(map(systemd_word, spec.argv))}", "Restart=on-failure", ""]
    return "\n".join([*lines, "[Install]", "WantedBy=multi-user.target", ""])


def systemd_word(word: str) -> str:
    """Quote a word for a unit file. Source: systemd.syntax(7) and systemd.service(5), "Command lines"."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$").replace("\n", "\\n")
    return f'"{escaped}"'


def compose(spec: LaunchSpec, baseline: Baseline) -> str:
    """A compose service; its image is the reader's to name."""

    def quote(word: str) -> str:
        return "'" + word.replace("'", "''").replace("$", "$$") + "'"

    lines = [head(baseline), "services:", "  server:", "    image: NAME_YOUR_IMAGE", "    network_mode: host"]
    lines += [f"    working_dir: {quote(spec.cwd)}"] if spec.cwd else []
    if spec.env or spec.unset:
        lines.append("    environment:")
        lines += [f"      {name}: {quote(value)}" for name, value in sorted(spec.env.items())]
    lines += ["    entrypoint:", *(f"      - {quote(word)}" for word in spec.argv)]
    return "\n".join([*lines, ""])


FORMS: dict[Form, tuple[str, Callable[[LaunchSpec, Baseline], str], int]] = {
    "script": ("known-good.sh", script, RUN),
    "systemd": ("known-good.service", systemd, READ),
    "compose": ("compose.yaml", compose, READ),
}


def changed_files(bench: Bench, baseline: Baseline) -> tuple[bytes, Files]:
    """Unified diff of all text files that the keeps changed, and whole files where a diff cannot say it.

    Returns:
        The diff, paths relative to the root directory; binary files as ``files/PATH``.
    """
    diff: list[bytes] = []
    whole: Files = {}
    for path, known in sorted(baseline.files.items()):
        before, after = (artifact(bench, one) for one in (baseline.originals.get(path, ""), known))
        if before == after:
            continue
        if is_text(before, after):
            diff.append(file_diff(path.lstrip("/"), before, after))
        elif after is not None:
            whole[f"files-{path.strip('/').replace('/', '-')}"] = (after, READ)
    return b"".join(diff), whole


def artifact(bench: Bench, digest: str) -> bytes | None:
    """Bytes of an artifact; None for the empty digest, which stands for no file."""
    return bench.artifacts.path(digest).read_bytes() if digest else None
