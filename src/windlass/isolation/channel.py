"""The child's end of the socket: what it sends, and a store that is the worker's."""

import contextlib
import logging
import socket
import threading
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec

from windlass.domain.artifact import Artifact
from windlass.domain.run import Claimed, Held
from windlass.engine.wire import (
    HEADER,
    Answer,
    Ask,
    Junk,
    Line,
    ToChild,
    ToWorker,
    frame,
    length_in,
    read_in_child,
)
from windlass.errors import LeaseLost, StoreError
from windlass.logs import STANDARD, plain
from windlass.offloop import off_loop
from windlass.store.interface import Call

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

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

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


class _Asking(Call[T]):
    """A call that the worker runs."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask.what, repeatable=False)
        self.ask = ask


class _Artifacts:
    def __init__(self, claimed: Claimed) -> None:
        self._ask = partial(Ask, run=claimed.id, token=claimed.token)

    def get(self, tenant: str, artifact: str) -> Call[Artifact | None]:
        return _Asking(self._ask(what="get_artifact", artifact=artifact))

    def delete_under(self, held: Held, artifact: str) -> Call[bool | None]:
        return _Asking(self._ask(what="delete_artifact", artifact=artifact))


class _Operations:
    def __init__(self, claimed: Claimed) -> None:
        self.artifacts = _Artifacts(claimed)

    def progress(self, held: Held, fraction: float | None, message: str | None) -> Call[bool]:
        ask = Ask(
            what="progress", run=held.id, token=held.token, fraction=fraction, message=message
        )
        return _Asking(ask)


class Questions:
    """Asks the worker, one question at a time: answers come in the order of the questions."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._one = threading.Lock()
        self.answers: SimpleQueue[Answer] = SimpleQueue()

    def ask(self, ask: Ask) -> Answer:
        """Ask, and wait for the answer."""
        with self._one:
            self._channel.send(ask)
            return self.answers.get()


class WorkersStore:
    """What the context of one attempt needs of a store: asked for over the socket, done by the
    worker, as long as that attempt has the lease."""

    def __init__(self, questions: Questions, claimed: Claimed) -> None:
        self._questions = questions
        self.operations = _Operations(claimed)

    def run(self, call: Call[T]) -> T:
        """Ask, and wait for the answer."""
        assert isinstance(call, _Asking)
        ask = call.ask
        answer = self._questions.ask(ask)
        if answer.lost:
            raise LeaseLost(ask.run, ask.token)
        if answer.error is not None:
            raise StoreError(answer.error)
        found: Any = answer.artifact if ask.what == "get_artifact" else answer.ok
        given: T = found
        return given

    async def arun(self, call: Call[T]) -> T:
        """The same, on a loop."""
        return await off_loop(partial(self.run, call), "windlass-asking")
