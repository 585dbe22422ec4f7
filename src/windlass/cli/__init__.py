"""The command `windlass`.

Each command is a module that is imported when it is asked for: a shell should not wait for a
database driver to be told how to spell an option. So nothing but click is imported up here, and
the one-line help of each command stands in the table below.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, TextIO

import click

from windlass.errors import WindlassError
from windlass.process import STOPPABLE, escape_output, take_signals

READER_GONE = 141
"""The exit code when the reader of our output has gone: as if by SIGPIPE."""


class Entry(NamedTuple):
    """Where a command is, and what it does in a few words."""

    module: str
    name: str
    help: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Work": {
        "init": Entry("init", "init", "Make a small project to begin with."),
        "dev": Entry("dev", "dev", "Run jobs while you write them, with hot reload."),
        "worker": Entry("worker", "worker", "Run jobs until told to stop."),
        "check": Entry("check", "check", "Find mistakes in handlers with durable steps."),
        "enqueue": Entry("enqueue", "enqueue", "Enqueue a run of a job."),
        "demo": Entry("demo", "demo", "Watch a tour of what runs can do."),
    },
    "Look": {
        "jobs": Entry("jobs", "jobs", "List jobs, check their files, pause and resume them."),
        "queues": Entry("queues", "queues", "List queues, pause and resume them."),
        "schedules": Entry("schedules", "schedules", "List, make, change and trigger schedules."),
        "workers": Entry("workers", "workers", "Show who is alive, and what each is doing."),
        "stats": Entry("stats", "stats", "Count runs, and show what waits in each queue."),
        "runs": Entry("runs", "runs", "List runs, or act on all that filters select."),
        "show": Entry("show", "show", "Show everything about one run."),
        "logs": Entry("logs", "logs", "Show what the handler of a run has logged."),
        "tail": Entry("tail", "tail", "Show what happens, as it happens."),
        "approvals": Entry("approvals", "approvals", "List what runs ask people."),
        "artifacts": Entry("artifacts", "artifacts", "List, read and delete bytes that runs keep."),
        "audit": Entry("audit", "audit", "List what operators did, and why."),
        "dead": Entry("dead", "dead", "List failed runs; retry or discard them in bulk."),
    },
    "Act": {
        "signal": Entry("send_signal", "signal", "Send a run what it waits for."),
        "approve": Entry("approvals", "approve", "Say yes to what a run asks."),
        "reject": Entry("approvals", "reject", "Say no to what a run asks."),
        "cancel": Entry("control", "cancel", "End runs, or ask running ones to end."),
        "pause": Entry("control", "pause", "Stop runs for now."),
        "resume": Entry("control", "resume", "Let paused runs go on."),
        "terminate": Entry("control", "terminate", "End runs now, without their handlers."),
        "restart": Entry("control", "restart", "Let runs begin anew, or from a step on."),
        "retry": Entry("control", "retry", "Run failed or canceled runs again."),
        "run-again": Entry("changing", "run_again", "Make a new run like one that has ended."),
        "reschedule": Entry("control", "reschedule", "Move runs to another time."),
        "reprioritize": Entry("control", "reprioritize", "Change priority or queue of runs."),
        "change": Entry("changing", "change", "Change the input, tags or times of waiting runs."),
    },
    "Store": {
        "migrate": Entry("migrate", "migrate", "Bring the database's schema up to date."),
        "prune": Entry("prune", "prune", "Delete runs that ended long ago, now."),
        "backup": Entry("backup", "backup", "Copy a SQLite store while it is in use."),
        "doctor": Entry("doctor", "doctor", "Find what is wrong, and say what to do."),
    },
}

EPILOG = """\
\b
The application: --app, $WINDLASS_APP, or `app` in windlass.toml; otherwise
only the job files in jobs/. The store: --url, the application's own,
$WINDLASS_URL, or `url` in windlass.toml; otherwise sqlite:///windlass.db.

\b
Exit codes: 0 done; 1 the run failed, no run matched what to act on, a check
found problems or warnings, or you said no; 2 wrong usage; 3 not found;
4 not possible in this state; 5 the store cannot be used; 6 the checkup found
errors; 130 interrupted."""


class Commands(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands."""
        return [name for entries in SECTIONS.values() for name in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in STOPPABLE:
            take_signals()
        entry = next((e[cmd_name] for e in SECTIONS.values() if cmd_name in e), None)
        if entry is None:
            return None
        module = import_module(f"windlass.cli.{entry.module}")
        command: click.Command = getattr(module, entry.name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what one wants, without importing any."""
        width = max(map(len, self.list_commands(ctx)))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(n.ljust(width), entry.help) for n, entry in entries.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit; whatever was expected to go wrong is one sentence."""
        escape_output()
        try:
            # What comes back is the code of ctx.exit(); the commands themselves return nothing.
            code = super().main(
                args,
                prog_name or "windlass",
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
            _flush()
        except _ReaderGone:
            _forget(sys.stdout)
            sys.exit(READER_GONE)
        except (click.ClickException, click.Abort, WindlassError) as error:
            from windlass.cli.failures import exit_code, print_error

            try:
                print_error(error)
            except BrokenPipeError:  # the code says it as well
                _forget(sys.stderr)
            sys.exit(exit_code(error))
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; click's own answer to a broken pipe is exit code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


class _ReaderGone(Exception):
    """Whoever read our output has enough (`| head`)."""


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise _ReaderGone from None


def _forget(stream: TextIO) -> None:
    """Python would fail to write what is left in the buffer at exit, and exit with 120."""
    with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - pathlib costs more than it gives
        os.dup2(nothing.fileno(), stream.fileno())


@click.group(
    "windlass",
    cls=Commands,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--app", metavar="MODULE:NAME", help="The application; may also follow a command.")
@click.option("--url", metavar="URL", help="The store; may also follow a command.")
@click.version_option(package_name="windlass", message="windlass %(version)s")
@click.pass_context
def main(ctx: click.Context, app: str | None, url: str | None) -> None:
    """Durable jobs for Python, from one SQLite file to a fleet on PostgreSQL."""
    ctx.obj = {"app": app, "url": url}
