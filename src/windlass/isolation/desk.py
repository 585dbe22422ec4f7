"""The child's end of the socket: what it sends, and a store that is the worker's."""

import asyncio
import logging
import logging.handlers
import socket
import threading
from queue import SimpleQueue
from typing import Any, TypeVar

from windlass.domain.artifact import Artifact
from windlass.domain.run import Held
from windlass.engine.wire import HEADER, Answer, Ask, Line, ToChild, ToWorker, frame, read_in_child
from windlass.errors import StoreError
from windlass.logs import STANDARD, plain
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
        with self._lock:
            self._socket.sendall(data)

    def receive(self) -> ToChild | None:
        """The next message; None when the worker is gone."""
        header = self._exactly(HEADER.size)
        body = None if header is None else self._exactly(HEADER.unpack(header)[0])
        return None if body is None else read_in_child(body)

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                data = self._socket.recv(min(size - len(parts), 1024 * 1024))
            except ConnectionError:
                return None
            if not data:
                return None
            parts += data
        return bytes(parts)


class LogLines(logging.handlers.QueueHandler):
    """Sends what is logged here to the worker, whose log it becomes."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(SimpleQueue())  # never used: the channel takes its place
        self._channel = channel

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Nothing: the event is read before it leaves this thread."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send the event; what this raises is not the handler's, see `QueueHandler.emit`."""
        exception = None
        if record.exc_info and record.exc_info[0] is not None:
            exception = _FORMATTER.formatException(record.exc_info)[-_LONGEST:]
        line = Line(
            logger=record.name,
            level=record.levelno,
            created=record.created,
            message=record.getMessage()[:_LONGEST],
            exception=exception,
            fields={k: plain(v) for k, v in vars(record).items() if k not in STANDARD},
        )
        self._channel.send(line)


class _Asking(Call[T]):
    """A call that the worker runs."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask.what, repeatable=False)
        self.ask = ask


class _Artifacts:
    def get(self, tenant: str, artifact: str) -> Call[Artifact | None]:
        return _Asking(Ask(what="get_artifact", artifact=artifact))

    def delete(self, tenant: str, artifact: str) -> Call[bool]:
        return _Asking(Ask(what="delete_artifact", artifact=artifact))


class _Operations:
    artifacts = _Artifacts()

    def progress(self, held: Held, fraction: float | None, message: str | None) -> Call[bool]:
        return _Asking(Ask(what="progress", fraction=fraction, message=message))


class Desk:
    """What a context needs of a store: asked for over the socket, done by the worker."""

    operations = _Operations()

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._one = threading.Lock()  # answers come in the order of the questions
        self.answers: SimpleQueue[Answer] = SimpleQueue()

    def run(self, call: Call[T]) -> T:
        """Ask, and wait for the answer."""
        assert isinstance(call, _Asking)
        with self._one:
            self._channel.send(call.ask)
            answer = self.answers.get()
        if answer.error is not None:
            raise StoreError(answer.error)
        found: Any = answer.artifact if call.ask.what == "get_artifact" else answer.ok
        given: T = found
        return given

    async def arun(self, call: Call[T]) -> T:
        """The same, on a loop."""
        return await asyncio.to_thread(self.run, call)
