"""What a worker and its child processes say to each other, over a socket of their own.

A message is a mark, its length, four bytes each, and JSON. The mark tells a message from whatever a
handler may have written to a number that it took for its own: who hears anything else, or less
than was announced, gives the other up.

The worker sends `Setup` once, then one `Assignment` at a time; while that runs it may send the
run's `StandingNow`. The child says `Ready` once it can take one. It answers with log `Line`s,
`Began` when the handler is about to be called, its progress (`Told`), `Ask`s (each waits for its
`Answer`, as does a `Joining`, said when its handler ends the run itself), and ends the attempt by
`Done` or `Lacking`. The child has no lease: all that it says is worth as much as the token of the
attempt it was given.
"""

import struct
from typing import Any

import msgspec

from windlass.config import DEFAULT_ARTIFACT_LIMIT
from windlass.domain.origin import Origin
from windlass.domain.report import ErrorInfo
from windlass.domain.run import NULL, Claimed, Finish, ProgressWrite
from windlass.domain.runlog import LogWrite
from windlass.domain.step import MOST_STEPS
from windlass.engine.holdings import Stop

HEADER = struct.Struct("!4sI")
_MARK = b"wl\x1e\x01"
_LARGEST = 2**30  # bytes of a message: far more than payloads and job files may have


class Junk(ValueError):
    """Something that is no message."""


class Setup(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """What every attempt needs: where modules are, which store, how much to log."""

    path: list[bytes]  # as the system has them: they need not be text
    url: str
    level: int
    result_limit: int
    max_steps: int = MOST_STEPS
    run_logs: int = 0
    artifacts: bytes | None = None  # as `path`
    artifact_limit: int = DEFAULT_ARTIFACT_LIMIT


class Assignment(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """An attempt that is to be run."""

    claimed: Claimed
    origin: Origin
    worker: str


class StandingNow(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """How the run stands now; of an attempt that is over it means nothing."""

    token: int
    run: str
    stop: Stop | None = None
    reason: str | None = None
    stopping: bool = False
    pausing: bool = False


class Answer(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """To an `Ask`, or a `Joining`: the operation's answer, or why it could not be done.

    `lost`: the attempt that asks has no lease any more.
    """

    value: msgspec.Raw = NULL
    lost: bool = False
    error: str | None = None


class Line(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """An event of a log."""

    logger: str
    level: int
    created: float
    message: str
    exception: str | None = None
    fields: dict[str, Any] = {}


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The process can take an attempt. One that ends before has ended for no run's sake."""


class Began(msgspec.Struct, tag=True, frozen=True):
    """The handler is called now: its time counts."""


class Ask(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """An operation that only the worker can run, under its lease (`store/operations/handlers.py`).

    It says whose it is: tasks and threads that a handler left behind live on in its process, and
    ask while that has another attempt.
    """

    operation: str
    arguments: msgspec.Raw
    run: str
    token: int

    def is_of(self, attempt: Assignment) -> bool:
        """Whether it is this attempt that asks."""
        return (self.run, self.token) == (attempt.claimed.id, attempt.claimed.token)


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt tells: its progress, and what it logs."""

    progress: ProgressWrite | None = None
    lines: LogWrite | None = None

    def __bool__(self) -> bool:
        return self.progress is not None or self.lines is not None


class Told(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """What an attempt tells: at most once a second, and the last with its `Done`."""

    run: str
    token: int
    words: Words

    def is_of(self, attempt: Assignment) -> bool:
        """Whether it is this attempt that tells."""
        return (self.run, self.token) == (attempt.claimed.id, attempt.claimed.token)


class Joining(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """The handler is about to end its run in a transaction of its own, or was refused that.

    It waits for an `Answer`: from then on a lease that is gone may be gone by that.
    """

    run: str
    token: int
    finish: Finish | None  # without its result, which only the store needs

    def is_of(self, attempt: Assignment) -> bool:
        """Whether it is this attempt."""
        return (self.run, self.token) == (attempt.claimed.id, attempt.claimed.token)


class Done(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """The handler has ended; `memory` is what the process uses now, in bytes.

    A result travels beside its `Finish`: JSON that may be absent cannot be read as it is.
    """

    memory: int
    finish: Finish | None
    result: msgspec.Raw = NULL
    has_result: bool = False
    words: Words = Words()  # what was told last, if that was not sent

    @classmethod
    def of(cls, finish: Finish | None, memory: int, words: Words) -> "Done":
        """What is sent."""
        if finish is None or finish.result is None:
            return cls(finish=finish, memory=memory, words=words)
        bare, result = msgspec.structs.replace(finish, result=None), finish.result
        return cls(finish=bare, memory=memory, result=result, has_result=True, words=words)

    @property
    def whole(self) -> Finish | None:
        """What was meant."""
        if self.finish is None or not self.has_result:
            return self.finish
        return msgspec.structs.replace(self.finish, result=self.result)


class Lacking(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """The job is not to be found in this process."""

    error: ErrorInfo


ToChild = Setup | Assignment | StandingNow | Answer
ToWorker = Line | Ready | Began | Ask | Told | Joining | Done | Lacking

read_in_child = msgspec.json.Decoder(ToChild).decode
read_in_worker = msgspec.json.Decoder(ToWorker).decode


def frame(message: ToChild | ToWorker) -> bytes:
    """A message as it travels."""
    body = msgspec.json.encode(message)
    return HEADER.pack(_MARK, len(body)) + body


def length_in(header: bytes) -> int:
    """How many bytes follow a header. Raises Junk."""
    mark, length = HEADER.unpack(header)
    if mark != _MARK or length > _LARGEST:
        raise Junk("there is no message")
    return int(length)
