"""Pages: what is written together is on one page of the feed, and needs no rows of its own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import msgspec
import pytest
from msgspec.structs import replace

from tests.sqlite.kit import JOB, new_run, new_worker, succeeded
from windlass.domain.run import Claimed, Finish, NewRun, RunRef, Want
from windlass.sources import ManualSources
from windlass.store.sqlite.store import SqliteStore

Page = tuple[str, str, int, int, list[str]]
"""Tenant, type, seq, attempt and subjects."""

PAGES = "select tenant, type, seq, attempt, subjects from pages order by n"
ROWS = "select (select count(*) from event_rows), (select count(*) from attempt_rows)"


@pytest.fixture
def calls(store: SqliteStore) -> Any:
    """The operations of a store that has a worker."""
    store.run(store.operations.register(new_worker(), 600.0))
    return store.operations


def read_all(path: Path, sql: str) -> list[Any]:
    with closing(apsw.Connection(str(path))) as raw:
        return raw.execute(sql).fetchall()


def pages(path: Path) -> list[Page]:
    return [(*page, _ids(subjects)) for *page, subjects in read_all(path, PAGES)]


def _ids(subjects: bytes) -> list[str]:
    parts = range(0, len(subjects), 16)
    return [str(UUID(bytes=subjects[first : first + 16])) for first in parts]


def claim(store: SqliteStore, ends: list[Finish], limit: int = 1_000) -> tuple[Claimed, ...]:
    want = Want(limit=limit, jobs=(JOB,)) if limit else None
    return store.run(store.operations.cycle("w1", 1, ends, want)).claimed


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 300])
def test_a_batch_has_a_page_for_each_tenant(
    store: SqliteStore, path: Path, sources: ManualSources, count: int
) -> None:
    runs = [
        new_run(sources, tenant="ab"[n % 2], delay=5.0 if n % 3 == 2 else None)
        for n in range(count)
    ]
    store.run(store.operations.enqueue(runs))

    found = pages(path)
    due = [run for run in runs if run.delay is None]
    expected = {run.tenant: [x.id for x in due if x.tenant == run.tenant] for run in due}
    assert {tenant: ids for tenant, *_, ids in found if len(ids) > 1 or ids[0] in _all(due)} == (
        expected
    )
    assert sorted(ident for *_, ids in found for ident in ids) == sorted(_all(runs))
    assert {tuple(page[1:4]) for page in found} == {("run.enqueued", 1, 0)}
    assert read_all(path, ROWS) == [(len(runs) - len(due), 0)]


def _all(runs: list[NewRun]) -> list[str]:
    return [run.id for run in runs]


def test_a_batch_that_is_undone_and_done_again_is_told_once(
    store: SqliteStore, path: Path, sources: ManualSources
) -> None:
    known = new_run(sources)
    store.run(store.operations.enqueue([known]))
    for count in (3, 70):
        some = [new_run(sources) for _ in range(count)]
        store.run(store.operations.enqueue([*some, known]))
        assert pages(path)[-1][-1] == _all(some)

    told = [ident for *_, ids in pages(path) for ident in ids]
    assert len(told) == len(set(told)) == 74


def test_a_claim_and_its_ends_have_a_page_for_each_seq_and_attempt(
    store: SqliteStore, calls: Any, path: Path, sources: ManualSources
) -> None:
    runs = [new_run(sources, tenant="ab"[n % 2]) for n in range(6)]
    store.run(calls.enqueue(runs))
    held = claim(store, [])
    again = replace(held[0], token=held[0].token)
    store.run(calls.retire("w1"))  # all go back
    store.run(calls.register(new_worker(), 600.0))
    store.run(calls.enqueue([new_run(sources, tenant="a")]))
    before = len(pages(path))
    held = claim(store, [])
    started = pages(path)[before:]
    assert again.id in _claimed(held)
    assert [page[:4] for page in started] == [
        ("a", "run.started", 2, 1), ("a", "run.started", 4, 2), ("b", "run.started", 4, 2),
    ]  # fmt: skip

    rows = read_all(path, ROWS)
    versions = [None, "1", "2"]
    ends = [replace(succeeded(run), version=versions[n % 3]) for n, run in enumerate(held)]
    assert claim(store, ends, 0) == ()

    ended = pages(path)[before + len(started) :]
    assert {page[:4] for page in ended} == {
        ("a", "run.succeeded", 3, 1), ("a", "run.succeeded", 5, 2), ("b", "run.succeeded", 5, 2),
    }  # fmt: skip
    told = [ident for *_, ids in ended for ident in ids]
    assert sorted(told) == sorted(_claimed(held))
    assert read_all(path, ROWS) == rows  # the records say all of it


def _claimed(runs: tuple[Claimed, ...]) -> list[str]:
    return [run.id for run in runs]


def test_a_success_that_is_not_plain_has_no_rows_either(
    store: SqliteStore, calls: Any, path: Path, sources: ManualSources
) -> None:
    store.run(calls.enqueue([new_run(sources)]))
    (run,) = claim(store, [])
    large = msgspec.Raw(b'"' + b"x" * 20_000 + b'"')
    claim(store, [replace(succeeded(run), result=large, version="7")], 0)

    assert read_all(path, ROWS) == [(0, 0)]
    assert pages(path)[-1] == ("default", "run.succeeded", 3, 1, [run.id])
    record = store.run(calls.get_run(RunRef(run.tenant, run.id)))
    assert [(end.worker, end.version) for end in record.attempts] == [("w1", "7")]


def test_a_part_of_a_page_is_read(store: SqliteStore, calls: Any, sources: ManualSources) -> None:
    store.run(calls.enqueue([new_run(sources) for _ in range(1_000)]))
    whole = store.run(calls.list_feed(None, 2_000))
    assert len(whole) == 1_000

    assert store.run(calls.list_feed(whole[499].place, 7)) == whole[500:507]
    assert store.run(calls.list_feed(whole[-1].place, 7)) == []
    assert store.run(calls.list_feed(None, 0)) == []


def test_a_store_without_its_pages_is_not_an_older_copy(
    store: SqliteStore, calls: Any, path: Path, sources: ManualSources
) -> None:
    """Pages may be deleted. How far the store has come is known without them."""
    store.run(calls.enqueue([new_run(sources)]))
    (before,) = store.run(calls.list_feed(None, 10))
    store.close()
    read_all(path, "delete from pages")

    store.run(calls.enqueue([new_run(sources)]))
    (after,) = store.run(calls.list_feed(before.place, 10))
    assert store.run(calls.list_feed(None, 10)) == [after]


def test_a_number_of_a_worker_is_never_used_again(
    store: SqliteStore, calls: Any, path: Path, sources: ManualSources
) -> None:
    """A worker that is forgotten and comes back under its name does not own what it left."""
    store.run(calls.enqueue([new_run(sources)]))
    (run,) = claim(store, [])
    read_all(path, "delete from workers")
    store.run(calls.register(new_worker(), 600.0))
    store.run(calls.register(new_worker(), 600.0))  # it keeps its number now
    assert read_all(path, "select worker_no, name from worker_names") == [(1, "w1"), (2, "w1")]
    assert read_all(path, "select worker_no from workers") == [(2,)]

    reply = store.run(calls.renew("w1", 600.0, [], 9))
    assert (reply.alive, reply.released) == (True, 0)
    sweep = {"dispatch": False, "expire": False, "reap": True, "max_crashes": 3, "limit": 10}
    assert store.run(calls.sweep(**sweep)).reaped == 1
    record = store.run(calls.get_run(RunRef(run.tenant, run.id)))
    assert [(end.worker, end.outcome) for end in record.attempts] == [("w1", "crashed")]

    read_all(path, "delete from workers; delete from worker_names")
    store.run(calls.register(new_worker("w2"), 600.0))
    assert read_all(path, "select worker_no from workers") == [(3,)]
