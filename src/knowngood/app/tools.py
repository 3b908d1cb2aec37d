"""The tools that fit a lab: its host, its benchmark client, who asks for answers, who shows progress."""

from knowngood.config.lab import LabConfig
from knowngood.config.values import seconds
from knowngood.errors import UsageError
from knowngood.flow.bench import Examiner
from knowngood.hosts.local import LocalHost
from knowngood.ports import Host, Load

SHORTEST_TTL_S = 1.0


class Quiet:
    """A reporter that shows nothing."""

    def begin(self, title: str, *, expected_s: float) -> None:
        """Show nothing."""

    def advance(self, step: str, share: float) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""


def open_host(config: LabConfig) -> Host:
    """The lab's host; one that is far away is reached when it is first asked for something.

    Raises:
        UsageError: The address is none, or the lease too short.
    """
    table = config.host
    ttl_s = seconds(config.lease.ttl, where="[lease] ttl")
    if ttl_s < SHORTEST_TTL_S:
        raise UsageError(f"[lease] ttl is {config.lease.ttl}", hint=f"at least {SHORTEST_TTL_S:g}s, such as 2m")
    if table.is_local:
        return LocalHost(ttl_s=ttl_s)
    scheme, _, name = table.address.partition("://")
    # A name with a dash in front would be taken for an option.
    if table.address != "local" and (scheme != "ssh" or not name or name.startswith("-")):
        raise UsageError(f"[host] address is {table.address!r}", hint='"local", or "ssh://NAME" as in `ssh NAME`')
    from knowngood.hosts.ssh import SshHost  # noqa: PLC0415

    return SshHost(name, prefix=table.through, python=table.python, sudo=table.sudo, ttl_s=ttl_s)


def open_load(config: LabConfig, host: Host) -> Load:
    """The benchmark client that ``[load]`` names, or that fits the engine.

    Raises:
        UsageError: They do not go together.
    """
    load, is_program = config.load, config.server.engine == "command"
    if config.server.metrics_file and not config.host.is_local:
        hint = "take it away, and have the program print the metrics as its last line"
        raise UsageError("[server] metrics_file is a file of this machine, and the host is another", hint=hint)
    if is_program != (load.client == "llama-bench") and load.client != "knowngood":
        hint = 'llama-bench goes with [server] engine = "command", all other clients with a server'
        raise UsageError(f"[load] client {load.client} does not go with the engine {config.server.engine}", hint=hint)
    if is_program:
        from knowngood.loads.metrics import last_object, llama_bench  # noqa: PLC0415
        from knowngood.loads.program import Program  # noqa: PLC0415

        read = llama_bench if load.client == "llama-bench" else last_object
        return Program(metrics_file=config.server.metrics_file, read=read)
    if load.client != "knowngood":
        from knowngood.loads.outside import open_outside  # noqa: PLC0415

        return open_outside(load, is_here=config.host.load_from == "here")
    from knowngood.loads.client import Client  # noqa: PLC0415

    return Client(lead=host.lead if config.host.load_from == "host" else None, python=config.host.python)


def open_examiner(config: LabConfig) -> Examiner:
    """Who asks for greedy answers, in the dialect of the engine."""
    from knowngood.loads.examiner import Questioner  # noqa: PLC0415

    return Questioner("llamacpp" if config.server.engine == "llamacpp" else "openai")
