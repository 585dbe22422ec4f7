"""The child's end of the socket: what it sends, and a store that is the worker's."""

import contextlib
import logging
import socket
import threading
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import msgspec

from windlass.domain.run import Claimed
from windlass.engine.wire import (
    HEADER,
    Answer,
    Ask,
    Joining,
    Junk,
    Line,
    ToChild,
    ToWorker,
    frame,
    length_in,
    read_in_child,
)
from windlass.errors import LeaseLost, StoreError
from windlass.logs import STANDARD, RunFields, plain
from windlass.offloop import off_loop
from windlass.store.operations import Call, Operations
from windlass.store.operations.handlers import pack_arguments, unpack_answer

T = TypeVar("T")

_LONGEST = 64 * 1024  # characters of a log event's text
_FORMATTER = logging.Formatter()


class Channel:
    """The socket; any thread may send."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()

    def send(self, message: ToWorker) -> None:
        """Send a message whole. A worker that is gone hears nothing."""
        data = frame(message)
        with self._lock, contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def receive(self) -> ToChild | None:
        """The next message; None when the worker is gone, or says what cannot be understood."""
        try:
            header = self._exactly(HEADER.size)
            body = None if header is None else self._exactly(length_in(header))
            return None if body is None else read_in_child(body)
        except (Junk, msgspec.MsgspecError, UnicodeError):
            return None

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                data = self._socket.recv(min(size - len(parts), 1024 * 1024))
            except OSError:  # broken, or closed by the handler
                return None
            if not data:
                return None
            parts += data
        return bytes(parts)


class LogLines(logging.Handler):
    """Sends what is logged here to the worker, whose log it becomes."""

    def __init__(self, channel: Channel, level: int) -> None:
        super().__init__()
        self._channel = channel
        self._shown = level
        self.addFilter(RunFields())

    def take_over(self) -> None:
        """Get all that is logged in this process; the worker shows it as the project wishes.

        A project that configures logging when it is imported does so here as well. So it is done
        again after each import.
        """
        root = logging.getLogger()
        if self not in root.handlers:
            root.handlers = [self]
            root.setLevel(self._shown)

    def emit(self, record: logging.LogRecord) -> None:
        """Send the event; it is read before it leaves this thread."""
        try:
            self._channel.send(_line(record))
        except Exception:  # noqa: BLE001 - told on standard error, as every handler does
            self.handleError(record)


def _line(record: logging.LogRecord) -> Line:
    exception = None
    if record.exc_info and record.exc_info[0] is not None:
        exception = _FORMATTER.formatException(record.exc_info)[-_LONGEST:]
    return Line(
        logger=record.name,
        level=record.levelno,
        created=record.created,
        message=record.getMessage()[:_LONGEST],
        exception=exception,
        fields={k: plain(v) for k, v in vars(record).items() if k not in STANDARD},
    )


class Questions:
    """Asks the worker, one question at a time: answers come in the order of the questions."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._one = threading.Lock()
        self.answers: SimpleQueue[Answer] = SimpleQueue()

    def ask(self, ask: Ask | Joining) -> Answer:
        """Ask, and wait for the answer."""
        with self._one:
            self._channel.send(ask)
            return self.answers.get()


class WorkersStore:
    """What the context of one attempt needs of a store: asked for over the socket, done by the
    worker, as long as that attempt has the lease."""

    def __init__(self, questions: Questions, claimed: Claimed) -> None:
        self._questions = questions
        self._claimed = claimed
        self.operations = Operations()

    def run(self, call: Call[T]) -> T:
        """Ask, and wait for the answer."""
        run, token = self._claimed.id, self._claimed.token
        arguments = pack_arguments(self.operations, call)
        answer = self._questions.ask(
            Ask(operation=call.name, arguments=arguments, run=run, token=token)
        )
        if answer.lost:
            raise LeaseLost(run, token)
        if answer.error is not None:
            raise StoreError(answer.error)
        value: T = unpack_answer(self.operations, call.name, answer.value)
        return value

    async def arun(self, call: Call[T]) -> T:
        """The same, on a loop."""
        return await off_loop(partial(self.run, call), "windlass-asking")
