"""How a process of ours begins, before it imports anything that takes long.

Only programs call this (`windlass`, and the child processes of a worker): importing it changes
nothing, and a program that embeds Windlass keeps its signals and streams as they are.
"""

import io
import os
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPABLE = frozenset({"worker", "dev"})
"""The commands that a signal stops in good order, from their first moment."""


def hold_signals() -> None:
    """Let requests to stop wait, in the kernel, until somebody here knows how to answer them.

    Until then a SIGTERM would end the process as if it had failed. What this process starts would
    inherit it: call :func:`take_signals` before anything is started.
    """
    _mask("SIG_BLOCK")


def take_signals() -> None:
    """Take the requests that wait, and those that come; may be called at any time."""
    _mask("SIG_UNBLOCK")


def disregard_signals() -> None:
    """Do nothing at a request to stop. It is not ignored: what is started would inherit that."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)


def open_streams() -> None:
    """Open /dev/null for each standard stream that was closed when this process was started.

    Otherwise the next socket or database file would get its number: what anybody prints would be
    written there, children would inherit it, and libuv aborts the process when it closes one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: it is the lowest free number, the one that is given next
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python has none for a number that was closed when it began, whoever may have it by now.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - for good
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def escape_output() -> None:
    """Escape what a stream has no sign for: nothing must fail after it has done its work."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(getattr(signal, how), SIGNALS)
