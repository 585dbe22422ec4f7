"""Runs of slots: like those that are enqueued, with the schedule and the slot that made them."""

from typing import NamedTuple

from windlass.domain.event import EventType
from windlass.domain.run import Enqueued, NewRun
from windlass.store.sqlite.new_runs import Times, record_of, tags_of
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import from_micros, new_blob, to_id, to_json, to_micros


class Slot(NamedTuple):
    """A schedule and one instant of it."""

    schedule: bytes
    slot: int


class SlotRuns:
    """The rows of new runs of slots, written table by table."""

    def __init__(self, tx: OpenTransaction) -> None:
        self._tx = tx
        self._times = Times(tx.now)
        self._rows: dict[str, list[Row]] = {}

    def add(self, run: NewRun, made_by: Slot) -> Enqueued:
        """Take a run in and answer for it."""
        now, (schedule, slot) = self._times.now, made_by
        blob = new_blob(run.id, run.job)
        due = self._times.due(run)
        scheduled_for = slot if run.at is None else to_micros(run.at)
        record = record_of(run, blob, self._times, scheduled_for)
        self._add("fire_run", (*record, schedule, slot))
        self._add("add_live", (run.tenant, schedule, slot, blob))
        place = (
            run.tenant, blob, run.job, run.queue, -run.priority, 0, 0, 0, 0, 1,
            self._times.deadline_at(run), self._times.expires_at(run), due,
        )  # fmt: skip
        if due > now:
            self._add("insert_timer", (*place, "delay", None, None, None))
        else:
            self._add("insert_ready", place)
        why = {"why": "delay"} if due > now else {}
        data = to_json({**why, "schedule": to_id(schedule), "slot": from_micros(slot)})
        self._add("insert_event", (run.tenant, blob, 1, EventType.ENQUEUED, now, 0, data))
        for row in tags_of(run, blob):
            self._add("enqueue_tag", row)
        return self._times.answer(run, due)

    def write(self) -> None:
        """Write the rows."""
        for name, rows in self._rows.items():
            self._tx.execute_many(name, rows)
        self._rows = {}

    def _add(self, name: str, row: Row) -> None:
        self._rows.setdefault(name, []).append(row)
