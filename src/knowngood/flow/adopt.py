"""A lab file out of a launch command, or out of a server that runs already."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from knowngood.errors import UsageError
from knowngood.model.launch import LaunchSpec, flag_values

ENGINES = (
    (re.compile(r"llama[-_]server"), "llamacpp", 8080),
    (re.compile(r"sglang"), "sglang", 30000),
    (re.compile(r"vllm"), "vllm", 8000),
    (re.compile(r"trtllm-serve"), "trtllm", 8000),
)
ADOPTED = re.compile(
    r"^(CUDA|NCCL|NVIDIA|VLLM|SGLANG|SGL|GGML|LLAMA|FLASHINFER|TRITON|TORCH|PYTORCH|TRTLLM|OMP|MKL|KMP|GLOO|HF|HIP|ROCR)_"
    r"|^(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PATH)$"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY", re.IGNORECASE)


def launch_of(words: Sequence[str]) -> tuple[LaunchSpec, tuple[str, ...]]:
    """The launch that a command line describes, and what a reader must know of it.

    Raises:
        UsageError: There is no command.
    """
    if not words:
        hint = "knowngood init -- llama-server -m model.gguf --port 8080"
        raise UsageError("no launch command was given", hint=hint)
    return LaunchSpec(argv=tuple(words), cwd=".", address="127.0.0.1", port=port_of(words)), ()


def adopt(pid: int, *, proc: Path = Path("/proc")) -> tuple[LaunchSpec, tuple[str, ...]]:
    """The launch of a server that runs; it is only read, never touched.

    Args:
        pid: Its process id.
        proc: The process file system.

    Returns:
        Its launch, and what a reader must know of it: variables that were left out.

    Raises:
        UsageError: There is no such process, or it is somebody else's.
    """
    folder = proc / str(pid)
    try:
        argv = (folder / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        pairs = (folder / "environ").read_bytes().decode(errors="surrogateescape").split("\0")
        cwd = str((folder / "cwd").readlink())
    except FileNotFoundError as error:
        raise UsageError(f"there is no process {pid}", hint="`pgrep -af server` finds it") from error
    except PermissionError as error:
        raise UsageError(
            f"process {pid} is somebody else's", hint="run `knowngood init` as its user, or with sudo"
        ) from error
    if not argv:
        raise UsageError(f"process {pid} has no command line", hint="it is a kernel thread, or it is just ending")
    env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    chosen = {name: value for name, value in sorted(env.items()) if ADOPTED.match(name) and not SECRET.search(name)}
    secrets = [name for name in env if ADOPTED.match(name) and SECRET.search(name)]
    notes = [f"left out, because it looks secret: {name}; export it before `knowngood`" for name in secrets]
    notes.append(f"process {pid} was left alone: stop it before a baseline is measured, or it holds port and memory")
    return LaunchSpec(argv=tuple(argv), env=chosen, cwd=cwd, port=port_of(argv)), tuple(notes)


def guess(argv: Sequence[str]) -> tuple[str, int]:
    """Engine and its usual port, by the words of a command; ``openai`` if nothing fits."""
    line = " ".join(argv[:4])
    return next(((name, port) for pattern, name, port in ENGINES if pattern.search(line)), ("openai", 8000))


def port_of(argv: Sequence[str]) -> int:
    """Port that a command names; its engine's usual one if it names none.

    Raises:
        UsageError: It names one that is no number.
    """
    named = [value for value in flag_values(argv, ("--port",)) if value]
    if named and not named[-1].isdigit():
        raise UsageError(f"--port is {named[-1]!r}", hint="a number from 1 to 65535")
    return int(named[-1]) if named else guess(argv)[1]


def lab_text(launch: LaunchSpec, *, engine: str) -> str:
    """Text of a lab file, with every setting that most people look for.

    Args:
        launch: How the server is started.
        engine: Its engine; empty guesses by the command.
    """
    chosen = engine or guess(launch.argv)[0]
    env = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in launch.env.items())
    port = 0 if chosen == "command" else launch.port
    return TEMPLATE.format(
        engine=chosen,
        command=json.dumps(list(launch.argv), ensure_ascii=False),
        env=f"env = {{ {env} }}\n" if env else "",
        cwd=json.dumps(launch.cwd),
        port=port,
    )


TEMPLATE = """\
# A lab: one server, and how it is judged. Every key: docs/reference/files.md

[host]
address = "local"

[server]
engine = "{engine}"
command = {command}
{env}cwd = {cwd}
port = {port}
ready_timeout = "10m"

[[workload]]                # the first decides; further ones are guards
name = "chat"
isl = 128                   # tokens in
osl = 64                    # tokens out
concurrency = 4             # or: rate = 2.0, in requests per second
duration_s = 20.0

[objective]
metric = "output_tok_s"
worthwhile = "2%"           # smaller gains are not kept

[guards]
ttft_p99_ms = "+10%"
error_rate = 0
answers = "equivalent"      # only numerical near ties may differ

[verdict]
profile = "standard"        # quick, standard, thorough, explore
"""
