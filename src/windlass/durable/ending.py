"""The end of a run in the handler's own transaction: `ctx.using(connection=…).finish(result)`.

What the handler wrote in that transaction and the end of its run are committed together, or neither
is. The store records the end there and then, under the token; nothing is left to be done for it
when the handler returns. Until the commit nobody else sees it, and nobody tells us of the commit:
only the store knows afterwards whether the lease is still there. So whatever the attempt comes to
after that is sent as always, and counts only if the transaction was not committed:

- the handler returns, whatever it returns: `EndNotCommitted`, a failed attempt;
- it raises, is stopped or takes too long: that, as without `finish`;
- its process dies: a crash.

If the transaction was committed the lease is gone: the store answers that the end was lost, and the
worker knows what that means. The renewal may find out before, while the handler still runs: the
handler is left alone. Killed before the commit, the database rolls the transaction back; killed
after it, the run has ended.
"""

from typing import Protocol, TypeVar

from windlass.domain.run import Finish, ProgressWrite
from windlass.durable.acts import JoinEnd, StepFlow
from windlass.durable.ledger import Ledger

T = TypeVar("T")


class Ending(Protocol):
    """How an attempt may end by its handler's own word."""

    def decide(self, value: object) -> Finish:
        """What `return value` would come to. Raises what is wrong with the value."""

    def told(self) -> ProgressWrite | None:
        """What the handler has told of its progress, if anything."""

    def join(self, finish: Finish | None) -> Finish | None:
        """An end is given to a transaction, or was refused there; returns the one before it."""


def joined_end(ledger: Ledger, ending: Ending, connection: object, value: T) -> StepFlow[T]:
    """End the attempt in the caller's transaction; returns the value. Raises LeaseLost."""
    ledger.check("finish")
    finish = ending.decide(value)
    before = ending.join(finish)  # first: a renewal may see the commit before we do
    try:
        yield JoinEnd(connection, finish, ending.told())
    except BaseException:
        ending.join(before)
        raise
    return value
