"""``knowngood``: parse, one app call, one view. Results go to stdout, progress to stderr."""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click

from knowngood import __version__

COMMANDS = {
    "demo": "The whole loop on a real small server, no GPU, nothing to configure.",
    "init": "Write knowngood.toml from a launch command, or from a server that runs.",
    "doctor": "What this host is, what is missing, and what can be detected on it.",
    "baseline": "Launch the known-good server, measure it against itself, record it.",
    "try": "Test each experiment file: keep it if it is proven better, else revert.",
    "check": "Have the engine check itself: an A/A trial, or all keeps against the original.",
    "isolate": "Which member of a change set did it: launch parts of it until that is known.",
    "race": "Find the best of many experiment files, or of a knob space, then try it.",
    "status": "Is the host at known-good?",
    "recover": "Bring the host back to known-good after a crash.",
    "undo": "Take the last keep back.",
    "capture": "Make an experiment of what was edited by hand.",
    "plan": "Hypotheses, ranked by predicted gain, chance and cost.",
    "findings": "What was learned, and where it holds.",
    "show": "One trial with its evidence.",
    "report": "Everything in one HTML file.",
    "export": "The known-good as script, systemd unit or compose file, plus a patch.",
    "serve": "Start the known-good server in the foreground.",
    "explain": "Where a step's milliseconds go, and what to try next; needs no lab.",
    "diagnose": "Root cause of a server's log; needs no lab.",
}
SEVERITY = (3, 5, 2, 1, 4, 0)
INTERRUPTED = 5


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for: ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of work."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command.

        Raises:
            UsageError: There is none of that name; the message names the nearest.
        """
        if cmd_name not in COMMANDS:
            import difflib  # noqa: PLC0415

            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command {cmd_name!r}{meant}", ctx)
        module = importlib.import_module(f"knowngood.faces.commands.{cmd_name.replace('try', 'try_')}")
        command = module.command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="knowngood")
def cli() -> None:
    """Try a change on an LLM inference server and keep it only if it is proven better.

    Otherwise the host is, byte for byte, what it was.
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the status that the design promises."""
    status = run(sys.argv[1:] if argv is None else list(argv))
    if status == INTERRUPTED:
        # A Ctrl-C inside exec(), as in the making of a dataclass, is remembered by CPython although it was caught, and
        # would end the process by signal here instead of with the status that was promised.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def run(args: Sequence[str]) -> int:
    """Run the command line.

    Args:
        args: Arguments behind the program's name.

    Returns:
        Exit status: 0 done, 1 void, 2 usage, 3 quarantined, 4 not a keep (with ``--gate``), 5 could not run.
    """
    calm_signals()
    as_json = "--json" in args
    try:
        status = cli.main(args=list(args), prog_name="knowngood", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        return show_error("Interrupted", "interrupted; the host is at known-good", "", as_json=as_json)
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
            return 2
        return show_error("UsageError", error.format_message(), usage_hint(error), as_json=as_json, status=2)
    except KeyboardInterrupt:
        return show_error("Interrupted", "interrupted; the host is at known-good", "", as_json=as_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  (the last rim: a traceback never reaches the user)
        return show_any(error, as_json=as_json)
    return status if isinstance(status, int) else 0


def show_any(error: Exception, *, as_json: bool) -> int:
    """Show an error of ours as it is, and a foreign one as what it is: a bug, with its traceback in a file."""
    from knowngood.errors import KnowngoodError  # noqa: PLC0415

    if isinstance(error, KnowngoodError):
        kind = type(error).__name__
        return show_error(kind, error.message, error.hint, as_json=as_json, status=error.exit_status)
    import tempfile  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    with tempfile.NamedTemporaryFile("w", prefix="knowngood-", suffix=".txt", delete=False) as file:
        traceback.print_exception(error, file=file)
    hint = (
        f"this is a bug; please report it with {file.name}; `knowngood status` says whether the host is at known-good"
    )
    return show_error("InternalError", f"{type(error).__name__}: {error}", hint, as_json=as_json)


def show_error(kind: str, message: str, hint: str, *, as_json: bool, status: int = INTERRUPTED) -> int:
    """Print an error for a person to stderr, or for a program to stdout; returns the status."""
    if as_json:
        import json  # noqa: PLC0415

        body = {"schema": "knowngood/error/1", "error": kind, "message": message, "hint": hint, "status": status}
        click.echo(json.dumps(body))
    else:
        click.echo(click.style("error: ", fg="red", bold=True) + message, err=True)
        if hint:
            click.echo(click.style(" hint: ", fg="cyan", bold=True) + hint, err=True)
    return status


def usage_hint(error: click.ClickException) -> str:
    """Say where the command's own help is."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"see `{ctx.command_path} --help`" if ctx else "see `knowngood --help`"


def calm_signals() -> None:
    """Let the first Ctrl-C, hang-up or SIGTERM start the way back, and no further one disturb it."""

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, ignore)
        click.echo(f"\n{signal.Signals(number).name}: bringing the host back to known-good…", err=True)
        raise KeyboardInterrupt

    def ignore(number: int, frame: FrameType | None) -> None:
        del frame
        click.echo(f"{signal.Signals(number).name}: still bringing the host back, please wait", err=True)

    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) is not signal.SIG_IGN:
            signal.signal(name, leave)


def worst(statuses: Sequence[int]) -> int:
    """The most severe of several exit statuses."""
    return min(statuses, key=SEVERITY.index, default=0)
