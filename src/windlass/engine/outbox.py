"""The ends of attempts that wait to be sent, and how many of them go at once."""

from collections import deque
from collections.abc import Iterable, Sequence

from windlass.domain.run import Finish
from windlass.engine.allowance import Allowance

_HEAVIEST = 4 * 1024**2  # bytes of results and errors in one trip; a single end may have more
_LIGHTEST = 64 * 1024
_MOST_WAITING = 2  # batches


class Outbox:
    """A queue of ends. ``allowed`` is what they may weigh together in one trip."""

    def __init__(self, batch: int) -> None:
        """At most ``batch`` of them go in one trip."""
        self._batch = batch
        self._ends: deque[Finish] = deque()
        self.allowed = Allowance(_HEAVIEST, _LIGHTEST)

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def is_full(self) -> bool:
        """Whether more wait than the next trips can take: then nothing new is begun.

        They may be too heavy to go as fast as they come. Each is a run that would be run again if
        the worker died.
        """
        return len(self._ends) > _MOST_WAITING * self._batch

    def append(self, finish: Finish) -> None:
        """Send this one after all others."""
        self._ends.append(finish)

    def add(self, finishes: Iterable[Finish]) -> None:
        """Send these after all others."""
        self._ends += finishes

    def put_back(self, finishes: Sequence[Finish]) -> None:
        """Send these first."""
        self._ends.extendleft(reversed(finishes))

    def pack(self) -> tuple[list[Finish], int]:
        """Take the next ends, a batch of them if that is not too heavy, and what they weigh.

        That is at least what was allowed, where some had to stay behind.
        """
        batch = [self._ends.popleft() for _ in range(min(len(self._ends), self._batch))]
        weight = sum([len(f.result) for f in batch if f.result is not None])
        weight += sum([len(f.error.traceback) for f in batch if f.error is not None])
        return (batch, weight) if weight <= self.allowed.now else self._pack_less(batch)

    def _pack_less(self, batch: list[Finish]) -> tuple[list[Finish], int]:
        """The first of them, as far as that is allowed, and one in any case; the others stay."""
        weight = count = 0
        for finish in batch:
            weight += len(finish.result) if finish.result is not None else 0
            weight += len(finish.error.traceback) if finish.error is not None else 0
            if count and weight > self.allowed.now:
                break
            count += 1
        self.put_back(batch[count:])
        return batch[:count], max(weight, self.allowed.now)
