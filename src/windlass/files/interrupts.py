"""Tells what a signal raises from what a file raises while it is imported.

A file may raise anything at its import, also what usually means "stop": KeyboardInterrupt,
SystemExit, CancelledError, GeneratorExit. That is a mistake of the file. A Ctrl-C of the user
raises KeyboardInterrupt in the midst of the very same import, and is meant for the program. The
exception does not say which of the two it is; the handler that raised it can.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts() -> Iterator[list[BaseException]]:
    """Note what signal handlers raise in this block, in a list that the block reads.

    Only the main thread handles signals; anywhere else the list stays empty.
    """
    raised: list[BaseException] = []
    if threading.current_thread() is not threading.main_thread():
        yield raised
        return
    found = {int(number): signal.getsignal(number) for number in signal.valid_signals()}
    handlers = {number: handler for number, handler in found.items() if callable(handler)}

    def noted(number: int, frame: FrameType | None) -> None:
        try:
            handlers[number](number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        for number in handlers:
            signal.signal(number, noted)
        yield raised
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is noted:  # unless the block has set its own
                signal.signal(number, handler)
