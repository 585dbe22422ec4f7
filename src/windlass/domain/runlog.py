"""The log of a run: what its handler logged, kept with the run. The rules, for both stores.

What is kept are *lines*: of `ctx.log`, and of ordinary `logging` in the task or the thread of the
handler. A line belongs to an attempt, and has a number in it, from 0.

What is promised:

- Lines are written in pieces, once a second for all runs of a worker together, and never on the way
  of a run that goes well: its last lines may come up to a second after its end. If an attempt ends
  otherwise, its lines are written before its end.
- A piece is written under the token of its attempt: while that has the lease, or after it has ended
  the run. So a worker that lost its lease adds nothing.
- A repeated piece is written once: (run, token, number of the first line) is its key.
- An attempt has at most as many lines as the setting `run_logs` says, and `MOST_BYTES`. Of one that
  logs more, the first lines are kept as they come, and the last `TAIL` with its end; a line
  between them says how many are left out.

What happens when it dies here: a worker that is killed takes with it the lines of the last second,
and those of a tail. Nothing else depends on lines: no wait, no verb and no recovery reads them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from windlass.domain.run import Held

RUN_LOGS = 1_000
"""How many lines of an attempt are kept, unless a setting says otherwise."""
TAIL = 100
MOST_BYTES = 256 * 1024
LONGEST_MESSAGE = 8 * 1024
LONGEST_EXCEPTION = 32 * 1024
MOST_FIELDS = 4 * 1024
MOST_CHUNK = 1024 * 1024
"""Bytes that one piece may have in a store."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line that a handler logged."""

    at: datetime  # by the worker's clock
    level: str
    logger: str
    message: str
    exception: str | None = None  # the traceback, as text
    fields: dict[str, Any] = {}  # what was given as `extra`
    attempt: int = 0
    number: int = 0  # in the attempt, from 0
    token: int = 0  # of the attempt's lease

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        shown.pop("token", None)
        return {"attempt": self.attempt, "number": self.number} | shown


class LogWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an attempt's log, to be written under its token."""

    tenant: str
    id: str
    token: int
    attempt: int
    first: int  # the number of its first line
    lines: Sequence[LogLine]

    @property
    def held(self) -> Held:
        """The lease that it is written under."""
        return Held(self.tenant, self.id, self.token)

    def followed_by(self, later: "LogWrite") -> "LogWrite":
        """Both as one piece."""
        return msgspec.structs.replace(self, lines=[*self.lines, *later.lines])


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece as it is stored."""

    token: int
    attempt: int
    first: int
    lines: msgspec.Raw


class LogPlace(msgspec.Struct, frozen=True):
    """A line's place among those of its run: reading goes on with the pieces after it."""

    token: int
    number: int


_decode = msgspec.json.Decoder(list[LogLine]).decode


def lines_of(chunk: LogChunk) -> Sequence[LogLine]:
    """The lines of a piece, with their numbers."""
    return [
        msgspec.structs.replace(
            line, attempt=chunk.attempt, number=chunk.first + n, token=chunk.token
        )
        for n, line in enumerate(_decode(chunk.lines))
    ]
