"""The order of PostgreSQL's feed, if transactions begin, write and commit in different orders."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.conformance.plain_sql import Client

Feed = list[tuple[str, int, str]]

CLAIM = "select id::text from windlass.claim('w', %s, %s, '{greet}')"
FEED = "select subject::text, seq, type from windlass.list_feed(p_after => %s)"


@pytest.fixture
def sessions(own_client: Client, pg_database: str) -> Iterator[list[psycopg.Connection]]:
    """Three sessions; each of them is in a transaction of its own once it has written."""
    own_client.all("select windlass.register('w', 600)")
    conns = [psycopg.connect(pg_database) for _ in range(3)]
    yield conns
    for conn in conns:
        conn.close()


def read(client: Client, number: int, after: str | None = None) -> Feed:
    """So many events of the feed, once they may be read: a transaction of another database of the
    server may hold them back for a moment."""
    deadline = time.monotonic() + 10
    while True:
        rows = [tuple(row.values()) for row in client.all(FEED, after)]
        if len(rows) >= number or time.monotonic() > deadline:
            return rows
        time.sleep(0.005)


def test_a_start_comes_after_the_enqueue_that_it_depends_on(
    own_client: Client, sessions: list[psycopg.Connection]
) -> None:
    """The one that claims had begun to write before the run was there."""
    claims, idles, enqueues = sessions
    first = own_client.value("select id::text from windlass.enqueue('greet')")
    claims.execute(CLAIM, (1, 1))
    idles.execute("select windlass.enqueue('greet', p_delay => 60)")
    second = enqueues.execute("select id::text from windlass.enqueue('greet')").fetchone()
    enqueues.commit()
    assert claims.execute(CLAIM, (2, 1)).fetchone() == second
    claims.commit()
    idles.commit()

    assert second is not None
    feed = read(own_client, 5)
    for run in (first, second[0]):
        assert [(seq, type) for subject, seq, type in feed if subject == run] == [
            (1, "run.enqueued"),
            (2, "run.started"),
        ]


def test_a_slow_transaction_is_never_skipped(
    own_client: Client, sessions: list[psycopg.Connection]
) -> None:
    slow, *_ = sessions
    late = slow.execute("select id::text from windlass.enqueue('greet')").fetchone()
    other = own_client.value("select id::text from windlass.enqueue('greet')")
    assert read(own_client, 0) == []  # it holds back what was committed after it had begun
    slow.commit()

    assert late is not None
    assert [subject for subject, _, _ in read(own_client, 2)] == [late[0], other]


def test_a_reader_that_goes_on_from_its_place_sees_each_event_once(
    own_client: Client, sessions: list[psycopg.Connection]
) -> None:
    slow, quick, _ = sessions
    made = []
    seen: list[str] = []
    place = None
    for turn in range(20):
        writer = (slow, quick)[turn % 2]
        made.append(writer.execute("select id::text from windlass.enqueue('greet')").fetchone())
        if turn % 3 == 0:
            quick.commit()
        if turn % 7 == 0:
            slow.commit()
        for row in own_client.all("select place, subject::text from windlass.list_feed(%s)", place):
            place = row["place"]
            seen.append(row["subject"])
    slow.commit()
    quick.commit()
    deadline = time.monotonic() + 10
    while len(seen) < len(made) and time.monotonic() < deadline:
        for row in own_client.all("select place, subject::text from windlass.list_feed(%s)", place):
            place = row["place"]
            seen.append(row["subject"])

    assert sorted(seen) == sorted(row[0] for row in made if row is not None)


def test_history_needs_no_pages(own_client: Client) -> None:
    own_client.all("select windlass.register('w', 600)")
    run = own_client.value("select id::text from windlass.enqueue('greet')")
    own_client.all(CLAIM, 1, 1)
    own_client.all("select * from windlass.succeed('{default}', array[%s::uuid], '{1}')", run)
    events = "select * from windlass.list_events('default', %s)"
    before = own_client.all(events, run)
    own_client.all("begin")
    own_client.all("delete from windlass.pages")

    assert len(before) == 3
    assert own_client.all(events, run) == before
    assert read(own_client, 0) == []
    own_client.all("rollback")


def test_a_place_that_is_none_is_refused(own_client: Client) -> None:
    with pytest.raises(psycopg.Error, match="is not a place in the feed") as refused:
        own_client.all("select * from windlass.list_feed('yesterday')")
    assert refused.value.sqlstate == "WL005"
