"""A verb for many runs on SQLite: what one of them wrote before it refused is undone, alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.domain.run import NewRun
from windlass.domain.states import Status
from windlass.errors import IllegalTransition
from windlass.sources import Sources
from windlass.store.sqlite import control
from windlass.store.sqlite.store import SqliteStore


def test_a_run_that_refuses_late_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No verb of today refuses after it has written; one of tomorrow may."""
    sources, cancel = Sources.system(), control.cancel
    given: Any = {"job": "greet", "queue": "main", "input": msgspec.Raw(b"{}")}
    runs = [NewRun(id=sources.new_id(), **given) for _ in range(3)]

    def refuse_late(tx: Any, run: Any, reason: str | None) -> Any:
        record = cancel(tx, run, reason)
        if run.id == runs[1].id:
            raise IllegalTransition(run.id, "odd", "cancel")
        return record

    monkeypatch.setattr(control, "cancel", refuse_late)
    with SqliteStore(tmp_path / "windlass.db", sources=sources) as store:
        ops, ids = store.operations, [run.id for run in runs]
        store.run(ops.enqueue(runs))

        answers = store.run(ops.apply_to_many("cancel", "default", ids, {"reason": None}))

        assert [applied.error is None for applied in answers] == [True, False, True]
        statuses = {record.id: record.status for record in store.run(ops.get_runs("default", ids))}
    assert [statuses[ident] for ident in ids] == [Status.CANCELED, Status.QUEUED, Status.CANCELED]
