"""How an error is printed, and the code that the command exits with.

    0  done                                       3  not found
    1  no: it failed, was refused, found nothing  4  not possible in this state
    2  wrong usage                                5  the store cannot be used
    6  the checkup found errors
  130  interrupted                              141  the reader of the output has gone

These are for scripts, so they are stable; the sentences are for people.
"""

import click

from windlass.errors import (
    ConflictError,
    IllegalTransition,
    KeyConflict,
    KeyTaken,
    NotFound,
    ResultTimeout,
    RunExpires,
    RunFailed,
    RunNotFound,
    StoreError,
    StoreUnavailable,
    UsageError,
    WindlassError,
)

FAILED = 1
USAGE = 2
NOT_FOUND = 3
CONFLICT = 4
STORE = 5
INTERRUPTED = 130

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (click.UsageError, USAGE),
    (UsageError, USAGE),
    (NotFound, NOT_FOUND),
    (ConflictError, CONFLICT),
    (StoreError, STORE),
)


def exit_code(error: Exception) -> int:
    """Return the code for an error."""
    if isinstance(error, click.Abort):
        # A prompt of click's hides what it was left by: a Ctrl-C, or the end of the input.
        why = error.__cause__ or error.__context__
        return INTERRUPTED if isinstance(why, KeyboardInterrupt) else FAILED
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def print_error(error: Exception) -> None:
    """Say on standard error what went wrong, in one sentence with what to do."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()  # not a mistake: the help was asked for by saying nothing
    elif not isinstance(error, click.Abort):
        click.echo(f"windlass: {sentence(error)}", err=True)


def sentence(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, click.UsageError):
        text = f"{_stop(error.format_message())}{_usage(error)}"
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    else:
        text = f"{_stop(str(error))}{_advice(error)}"
    # A path in an ASCII locale has surrogates, which no stream can write.
    return " ".join(text.split()).encode("utf-8", "backslashreplace").decode()


def _stop(text: str) -> str:
    text = text.rstrip()
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def _usage(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx is not None else "windlass"
    return f" Try `{path} --help`."


def _advice(error: Exception) -> str:
    """What to do, where the error's own text does not say it."""
    match error:
        case RunNotFound():
            return " `windlass runs` lists those there are."
        case RunFailed(run=run) | IllegalTransition(run=run) | RunExpires(run=run):
            return f" See `windlass show {run}`."
        case KeyConflict(run=run) | KeyTaken(owner=run):
            return f" See `windlass show {run}`."
        case ResultTimeout(run=run):
            return f" See `windlass show {run}`."
        case StoreUnavailable():
            return " Check the URL, and whether the database is up."
        case WindlassError() | _:
            return ""
