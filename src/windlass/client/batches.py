"""Batches, seen from outside: how far they are, which units failed, and those once more."""

import builtins
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass import codec
from windlass.client.enqueue import enqueue
from windlass.client.filters import check_page
from windlass.client.history import HistoryVerbs
from windlass.client.run import Run
from windlass.domain.batch import MOST_PAGE, BatchCounts, FailedUnit
from windlass.errors import UsageError
from windlass.store.flow import Flow

_SEALED = 3600.0


class BatchVerbs(HistoryVerbs):
    """Look at batches, and do their failed units again."""

    def batch_counts(self, run: str) -> Flow[BatchCounts]:
        """How far a batch is: `total`, `processed`, `succeeded`, `failed`, and its shards.

        The numbers are of one moment, and add up. A run that has not started, or is no batch, has
        no shards.
        """
        ref = self._ref(run)
        found: BatchCounts | None = yield self._operations.get_batch(ref.tenant, ref.id)
        if found is None:
            yield from self._record(run)
            return BatchCounts()
        return found

    def failed_units(
        self, run: str, *, after: int = -1, limit: int = 100
    ) -> Flow[Sequence[FailedUnit]]:
        """List the units of a batch that failed, by number, with their errors.

        For the next page, pass the last one's number as `after`.
        """
        ref = self._ref(run)
        found: Sequence[FailedUnit] = yield self._operations.list_failed_units(
            ref.tenant, ref.id, after, check_page("limit", limit)
        )
        return found

    def retry_failed(self, run: str) -> Flow[Run[Any]]:
        """Enqueue a batch of the units of another one that failed, with the same arguments.

        It is a new run; the old one stays as it is. Raises UsageError if none has failed.
        """
        record = yield from self._record(run)
        operations, tenant = self._operations, self._scope.tenant
        (id,) = self._scope.sources.new_ids(1)
        count, after = 0, -1
        while True:
            page: Sequence[FailedUnit] = yield operations.list_failed_units(
                tenant, record.id, after, MOST_PAGE
            )
            if page:
                units = [each.unit for each in page]
                yield operations.stage_units(tenant, id, count, units, _SEALED)
                count, after = count + len(page), page[-1].n
            if len(page) < MOST_PAGE:
                break
        if not count:
            raise UsageError(f"No unit of run {record.id} has failed.")
        input = builtins.dict(codec.decode(msgspec.Raw(record.input)))
        input["units"] = {"staged": count}
        request = yield from self._scope.requester.asked(record.job, input)
        runs = yield from enqueue(self._scope, [request], ids=[id])
        return runs[0]
