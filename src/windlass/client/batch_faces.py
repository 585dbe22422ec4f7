"""The two faces of BatchVerbs: generated from client/batches.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from windlass.client.history_faces import HistoryFaces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from windlass.client.batches import BatchVerbs
    from windlass.client.run import Run
    from windlass.domain.batch import BatchCounts, FailedUnit


class BatchFaces(HistoryFaces):
    """Every verb of BatchVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> BatchVerbs:
        """The flows."""
        ...

    def batch_counts(self, run: str) -> BatchCounts:
        """How far a batch is: `total`, `processed`, `succeeded`, `failed`, and its shards.

        The numbers are of one moment, and add up. A run that has not started, or is no batch, has
        no shards.
        """
        verbs = self._verbs
        return verbs.perform(verbs.batch_counts(run))

    async def abatch_counts(self, run: str) -> BatchCounts:
        """As `batch_counts`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.batch_counts(run))

    def failed_units(self, run: str, *, after: int = -1, limit: int = 100) -> Sequence[FailedUnit]:
        """List the units of a batch that failed, by number, with their errors.

        For the next page, pass the last one's number as `after`.
        """
        verbs = self._verbs
        return verbs.perform(verbs.failed_units(run, after=after, limit=limit))

    async def afailed_units(
        self, run: str, *, after: int = -1, limit: int = 100
    ) -> Sequence[FailedUnit]:
        """As `failed_units`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.failed_units(run, after=after, limit=limit))

    def retry_failed(self, run: str) -> Run[Any]:
        """Enqueue a batch of the units of another one that failed, with the same arguments.

        It is a new run; the old one stays as it is. Raises UsageError if none has failed.
        """
        verbs = self._verbs
        return verbs.perform(verbs.retry_failed(run))

    async def aretry_failed(self, run: str) -> Run[Any]:
        """As `retry_failed`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.retry_failed(run))
