"""The runs of failure handlers, made in the transaction in which a run fails for good.

The twin of PostgreSQL's `windlass.start_failure_runs`; `domain/failed.py` says what is promised.
"""

from typing import Any

import msgspec

from windlass.domain.failed import FailureHandler, handling_id
from windlass.domain.outcome import ErrorInfo
from windlass.domain.run import NewRun, Options
from windlass.domain.states import Failure
from windlass.store.mending import readable
from windlass.store.sqlite.new_runs import Batch
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.positions import Position
from windlass.store.sqlite.values import from_micros, to_error, to_id, to_json, to_raw, to_texts

_HANDLES = Options(on_failure=True)
_handler = msgspec.json.Decoder(FailureHandler)


class FailureRuns:
    """The runs that handle the deaths of one transaction."""

    def __init__(self, tx: OpenTransaction) -> None:
        self._tx = tx
        self._batch: Batch | None = None

    def start(self, dead: Position, failure: Failure, error: ErrorInfo | None) -> str | None:
        """Make a run for a run that fails; return its id, or None if nobody handles that.

        ``dead`` has the counts and the ``seq`` that the run ends with.
        """
        row = self._tx.fetch_one("failure_handler", (dead.id, dead.tenant, dead.job))
        if row is None:
            return None
        stored, *record = row
        # A row that somebody wrote by hand must not keep the run from ending.
        handler, _ = readable("failure handler", _handler.decode, stored)
        if handler is None:
            return None
        now = self._tx.now
        run = to_id(handling_id(dead.id, dead.seq, now))
        told = self._facts(dead, failure, error, record)
        if self._batch is None:
            self._batch = Batch(self._tx)
        self._batch.add(
            NewRun(
                id=run,
                tenant=dead.tenant,
                job=handler.job,
                queue=handler.queue or dead.queue,
                priority=-dead.rank if handler.priority is None else handler.priority,
                input=msgspec.Raw(to_json({handler.argument: told})),
                options=_HANDLES,
                trace=record[3] or dead.id.hex(),
                enqueued_by=to_id(dead.id),
            )
        )
        return run

    def write(self) -> None:
        """Write the rows."""
        if self._batch is not None:
            self._batch.write()
            self._batch = None

    def _facts(
        self, dead: Position, failure: Failure, error: ErrorInfo | None, record: list[Any]
    ) -> dict[str, object]:
        """The run as a FailedRun; its input and metadata stay the text that they are."""
        input, tags, key, _, metadata, created_at = record
        return {
            "id": to_id(dead.id),
            "job": dead.job,
            "queue": dead.queue,
            "failure": failure,
            "input": to_raw(input),
            "error": error or self._last_error(dead),
            "attempts": dead.attempt,
            "failures": dead.failures,
            "crashes": dead.crash_count,
            "key": key,
            "tags": to_texts(tags),
            "metadata": to_raw(metadata),
            "created_at": from_micros(created_at),
            "failed_at": from_micros(self._tx.now),
        }

    def _last_error(self, dead: Position) -> ErrorInfo | None:
        row = self._tx.fetch_one("last_error", (dead.tenant, dead.id))
        return None if row is None else to_error(row[0])
