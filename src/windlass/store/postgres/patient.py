"""Connections that wait for as long as a call may take, and no longer.

A call is given up after ``stall`` seconds in which nothing was sent and nothing came back. While
bytes move, in either direction, it goes on: a slow line is not a broken one. What is silence to us
may be work to the server, which reads and writes all that it was given before it answers. So a call
may be silent for a second longer for each mebibyte that it carries.

A call that may wait for a lock has the time for that, too: its function gives up first, and says
why. A call that is given up is canceled on the server as well, see :func:`give_up`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.waiting import wait_async

from windlass.store.callers_transaction import forked

RV = TypeVar("RV")

_CANCEL = 1.0  # seconds for a cancel to reach the server
_LOCKS = 6.0  # seconds; a function that waits for a lock does so for five
_BYTES_A_SECOND = 1024**2  # what a busy server with a slow disk manages


class Silence(psycopg.OperationalError):
    """Nothing came for as long as a call may take."""


def time_for(weight: int) -> float:
    """The seconds that a server may need for so many bytes, besides those of a small call."""
    return weight / _BYTES_A_SECOND


def while_it_moves(gen: PQGen[RV], silence: float) -> PQGen[RV]:
    """Go through the steps of a call; raise OperationalError after so many seconds of silence."""
    try:
        step = next(gen)
        until = monotonic() + silence
        while True:
            ready = yield step
            if ready:
                until = monotonic() + silence
            elif monotonic() >= until:
                raise Silence(f"nothing was heard for {silence:.0f} s")
            step = gen.send(ready)
    except StopIteration as end:
        result: RV = end.value
        return result


class PatientConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection whose calls give up after ``stall`` seconds in which nothing moved.

    ``prepares``: whether a statement that was prepared will be there the next time. ``extra``: the
    seconds that the current call may take longer. ``begins``: whether a call has to say how its
    transaction is isolated, since the default is not what the functions need.
    """

    stall: float | None = None
    extra: float = 0.0
    prepares = False
    begins = False
    process: int | None = None  # the one that opened it

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait as psycopg does, but never for ever, and not for a fork."""
        if not is_own(self):
            raise forked()
        if timeout is None and self.stall is not None:
            gen = while_it_moves(gen, self.stall + self.extra)
        return super().wait(gen, interval, timeout)


class PatientAsyncConnection(psycopg.AsyncConnection[tuple[object, ...]]):
    """The asynchronous twin."""

    stall: float | None = None
    extra: float = 0.0
    prepares = False
    begins = False
    process: int | None = None

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait as psycopg does, but never for ever, and not at all for whoever cancels.

        psycopg would ask the server to cancel the statement, and wait up to ten seconds for it
        to comply. The pool asks as well, in the background, and drops the connection.
        """
        if not is_own(self):
            raise forked()
        if timeout is None and self.stall is not None:
            gen = while_it_moves(gen, self.stall + self.extra)
        return await wait_async(gen, self.pgconn.socket, interval, timeout)


@contextmanager
def longer(
    conn: PatientConnection | PatientAsyncConnection, weight: int, patient: bool
) -> Iterator[None]:
    """Let a call take longer, for so many bytes that it carries, and if it may wait for locks."""
    locks = max(0.0, _LOCKS - conn.stall) if patient and conn.stall is not None else 0.0
    conn.extra = time_for(weight) + locks
    try:
        yield
    finally:
        conn.extra = 0.0


def give_up(conn: PatientConnection) -> None:
    """Drop a connection in an unknown state; what the server still does for it is canceled.

    A server that waits for a lock does not notice that its client is gone. Without a cancel each
    call that is given up would leave a session behind, for as long as the lock is held.
    """
    if is_working(conn):
        with suppress(psycopg.Error, OSError):
            conn.cancel_safe(timeout=_CANCEL)
    discard(conn)


async def agive_up(conn: PatientAsyncConnection) -> None:
    """As :func:`give_up`, on the loop."""
    try:
        with suppress(psycopg.Error, OSError):
            await conn.cancel_safe(timeout=_CANCEL)
    finally:
        discard(conn)


def is_working(conn: PatientConnection | PatientAsyncConnection) -> bool:
    """Whether the server works for it, as far as we know, and can be told to stop.

    Before libpq 17 a cancel could not be bounded in time.
    """
    return (
        is_own(conn)
        and psycopg.capabilities.has_cancel_safe()
        and conn.pgconn.transaction_status == TransactionStatus.ACTIVE
    )


def discard(conn: PatientConnection | PatientAsyncConnection) -> None:
    """Drop a connection in an unknown state, without a word to the server."""
    if is_own(conn):
        conn.pgconn.finish()


def is_own(conn: PatientConnection | PatientAsyncConnection) -> bool:
    """Whether this process has opened it; of a fork even its farewell would end the parent's."""
    return conn.process is None or conn.process == os.getpid()
