"""How long a call may take: as long as something moves, and the server has had time for its size.

A call is given up after ``stall`` seconds in which nothing was sent and nothing came back. While
bytes move, in either direction, it goes on: a slow line is not a broken one. What is silence to us
may be work to the server, which reads and writes all that it was given before it answers. So a call
may be silent for a second longer for each mebibyte that it carries.
"""

from time import monotonic
from typing import TypeVar

import psycopg
from psycopg.abc import PQGen

RV = TypeVar("RV")

_BYTES_A_SECOND = 1024**2  # what a busy server with a slow disk manages


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
                raise psycopg.OperationalError(f"nothing was heard for {silence:.0f} s")
            step = gen.send(ready)
    except StopIteration as end:
        result: RV = end.value
        return result
