"""Ends that handlers gave to transactions of their own (`durable/ending.py`), in the worker.

Such an attempt has two ends: the one in the handler's transaction, and what it came to afterwards.
The second is sent as all ends are. Which of the two counts is known when the store has answered:
"lost" means that the first was committed. Only then is it logged, and only then do the runs count
as ready that it made so.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from windlass.domain.run import CycleReply, Finish, Held, ProgressWrite
from windlass.engine.holdings import Holding
from windlass.errors import EndNotCommitted
from windlass.logs import steady_log

log = steady_log(__name__)


class HandlersEnding:
    """How the attempt of a holding may end by its handler's own word."""

    __slots__ = ("_decide", "_holding", "_tell")

    def __init__(
        self,
        holding: Holding,
        decide: Callable[[Holding, object], Finish],
        tell: Callable[[Holding], None],
    ) -> None:
        """`tell` hears of each end that is given to a transaction, or was refused there."""
        self._holding = holding
        self._decide = decide
        self._tell = tell

    def decide(self, value: object) -> Finish:
        """What `return value` would come to. Raises what is wrong with the value."""
        return self._decide(self._holding, value)

    def told(self) -> ProgressWrite | None:
        """What the handler has told of its progress, if anything."""
        gauge = self._holding.gauge
        # All of it, though it was taken: a write on its way may come too late.
        return None if gauge is None else gauge.last()

    def join(self, finish: Finish | None) -> Finish | None:
        """An end is given to a transaction, or was refused there; returns the one before it."""
        before, self._holding.joined = self._holding.joined, finish
        self._tell(self._holding)
        return before


class _Open(NamedTuple):
    holding: Holding
    log: Callable[[Finish], None]


class JoinedEnds:
    """Attempts with two ends, until the store has said which of them counts."""

    def __init__(self, counts: Callable[[Finish], None]) -> None:
        """`counts` hears of each end that does."""
        self._counts = counts
        self._open: dict[Held, _Open] = {}

    def add(self, holding: Holding, log_end: Callable[[Finish], None]) -> None:
        """What it came to afterwards is about to be sent; `log_end` logs the end that counts."""
        self._open[holding.held] = _Open(holding, log_end)

    def settle(
        self, finishes: Sequence[Finish], reply: CycleReply
    ) -> tuple[Sequence[Finish], Sequence[Held]]:
        """The store has answered these: returns the ends that count, and which leases were lost."""
        if not self._open:  # nearly always
            return finishes, reply.lost
        lost, busy = frozenset(reply.lost), frozenset(reply.busy)
        count, committed = [], set()
        for finish in finishes:
            held = Held(finish.tenant, finish.id, finish.token)
            known = None if held in busy else self._open.pop(held, None)
            if known is not None:
                if held in lost:
                    committed.add(held)
                    finish = _first(known.holding, finish)
                known.log(finish)
                self._counts(finish)
            count.append(finish)
        return count, [held for held in reply.lost if held not in committed]


def _first(holding: Holding, second: Finish) -> Finish:
    """The end that was committed. What the handler failed by after that is only logged."""
    error = second.error
    if error is not None and not error.type.endswith(EndNotCommitted.__name__):
        extra = {"run": second.id, "error": f"{error.type}: {error.message}"}
        log.warning("handler failed after it had ended its run", extra=extra)
    return holding.joined or second
