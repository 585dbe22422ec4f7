"""What the doctor finds in the work itself, on both stores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import apsw
import psycopg
import pytest

from tests.doctor.kit import bad, checkup, claim, hire, make_app, of, only
from windlass import Windlass
from windlass.domain.checkup import Severity
from windlass.domain.run import Blocked, Held


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose store is looked at."""
    made = make_app(url)
    yield made
    made.close()


def tamper(url: str, statement: str) -> None:
    """Change the tables behind the store's back; `@` stands before the names of tables."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute(statement.replace("@", ""))
        connection.close()
        return
    with psycopg.connect(url) as conn:
        conn.execute(statement.replace("@", "windlass.").encode())


def test_a_healthy_store_has_nothing_worse_than_notes(durable: str) -> None:
    app = make_app(durable)
    hire(app)
    app.enqueue("greet")
    claim(app)
    app.enqueue("post")
    app.schedules.put("greet", key="nightly", cron="0 3 * * *")

    app.close()

    report = checkup(durable)

    assert bad(report) == []
    assert report.worst is Severity.OK
    assert only(report, "workers").text == "1 alive, 1 of 10 seats taken."
    assert only(report, "queues").text == "1 run ready, each with a worker for it."
    assert only(report, "schedules").text == "1 schedule on, nothing wrong."


def test_an_idle_store_without_workers_is_only_noted(durable: str) -> None:
    make_app(durable).close()

    report = checkup(durable)

    assert bad(report) == []
    assert only(report, "workers").severity is Severity.NOTE


def test_runs_that_wait_while_nobody_is_alive(url: str, app: Windlass) -> None:
    app.enqueue("greet")
    hire(app, lease=0)

    found = only(checkup(url), "workers")

    assert found.severity is Severity.WARNING
    assert found.text == "No worker is alive; 1 run left to do."


def test_a_job_that_no_worker_has(url: str, app: Windlass) -> None:
    hire(app, jobs=("post",))
    app.enqueue("greet")
    age_ready(url)

    found = only(checkup(url), "queues")

    assert found.severity is Severity.WARNING
    assert found.text == "No worker has the job of 1 run of 'greet' in queue 'default'."


def test_a_queue_that_no_worker_serves(url: str, app: Windlass) -> None:
    hire(app, queues=("default",))
    app.enqueue("post")
    age_ready(url)

    found = only(checkup(url), "queues")

    assert found.severity is Severity.WARNING
    assert found.text == "No worker serves 1 run of 'post' in queue 'mail'."
    assert "--queues mail" in found.advice


def test_a_paused_queue_with_runs_is_said_and_nothing_else_of_them(url: str, app: Windlass) -> None:
    hire(app)
    app.enqueue("greet", queue="mail")
    app.enqueue("greet", queue="mail")
    app.enqueue("greet")
    with app.acting_as("ann"):
        app.pause_queue("mail", reason="the relay is down")
        app.pause_queue("empty")

    found = of(checkup(url), "queues")

    assert len(found) == 2
    assert found[0].severity is Severity.WARNING
    assert found[0].text.startswith("2 runs waiting: queue 'mail' was paused ")
    assert found[0].text.endswith(" by ann (the relay is down).")
    assert "windlass queues resume mail" in (found[0].advice or "")
    assert found[1].text == "1 run ready, each with a worker for it."


def test_a_run_that_waits_for_long_beside_free_seats(url: str, app: Windlass) -> None:
    hire(app)
    app.enqueue("greet")
    age_ready(url)

    assert only(checkup(url), "queues").severity is Severity.OK
    found = only(checkup(url, waiting=60.0), "queues")

    assert found.severity is Severity.WARNING
    assert re.search("have been ready in queue 'default' for 1 m 4. s", found.text)
    assert "w has free seats" in found.text


def test_a_run_that_waits_for_long_for_a_busy_worker_is_nobodys_fault(
    url: str, app: Windlass
) -> None:
    app.enqueue("greet")
    hire(app, seats=1)
    claim(app)
    app.enqueue("greet")
    age_ready(url)

    assert only(checkup(url, waiting=60.0), "queues").severity is Severity.OK


def age_ready(url: str) -> None:
    """Let what is ready have been so for 100 seconds."""
    if url.startswith("sqlite"):
        tamper(url, "update ready set ready_at = ready_at - 100 * 1000000")
    else:
        tamper(url, "update @ready set ready_at = ready_at - interval '100 s'")


def age_leases(url: str) -> None:
    """Let what runs have done so for 100 seconds."""
    if url.startswith("sqlite"):
        tamper(url, "update leases set started_at = started_at - 100 * 1000000")
    else:
        tamper(url, "update @leases set started_at = started_at - interval '100 s'")


def age_workers(url: str) -> None:
    """Let the leases of all workers have ended 100 seconds ago."""
    if url.startswith("sqlite"):
        tamper(url, "update workers set alive_until = alive_until - 100 * 1000000")
    else:
        tamper(url, "update @workers set alive_until = alive_until - interval '100 s'")


def test_a_run_beyond_its_timeout(url: str, app: Windlass) -> None:
    run = app.enqueue("post")
    app.enqueue("greet")  # without a timeout
    hire(app)
    claim(app)
    age_leases(url)

    found = only(checkup(url), "running")

    assert found.severity is Severity.WARNING
    told = f"Run {run.id} of 'post' has been running on w for 1 m 4. s; its timeout is 1 s."
    assert re.fullmatch(told, found.text)


def test_a_blocked_event_loop_is_named_with_the_run_that_blocks_it(url: str, app: Windlass) -> None:
    run = app.enqueue("greet")
    hire(app)
    claim(app)
    blocked = Blocked(seconds=12.0, tenant="default", run=run.id)
    held = Held("default", run.id, 1)
    app.store.run(app.store.operations.renew("w", 30.0, [held], 0, blocked))

    found = of(checkup(url), "workers")[1]

    assert found.severity is Severity.WARNING
    assert found.text.startswith(f"The event loop of w has been blocked by run {run.id} for 12")


def test_runs_of_dead_workers_that_nobody_reaps(url: str, app: Windlass) -> None:
    run = app.enqueue("greet")
    hire(app)
    claim(app)
    hire(app, lease=0)
    age_workers(url)
    hire(app, "other")

    report = checkup(url)

    dead = of(report, "workers")[1]
    assert dead.severity is Severity.WARNING
    assert dead.text.startswith("1 dead worker not reaped, w for 1 m 4")
    (found,) = of(report, "running")
    assert found.severity is Severity.WARNING
    assert found.text == f"1 run of dead workers not taken back: {run.id}."


def test_workers_of_several_versions(url: str, app: Windlass) -> None:
    hire(app, "a")
    hire(app, "b", version="2")

    found = of(checkup(url), "workers")[1]

    assert found.severity is Severity.NOTE
    assert "1 of 1, 1 of 2" in found.text


def test_a_store_whose_clock_was_set_back(url: str, app: Windlass) -> None:
    hire(app)
    if url.startswith("sqlite"):
        tamper(url, "update workers set renewed_at = renewed_at + 3600 * 1000000")
    else:
        tamper(url, "update @workers set renewed_at = renewed_at + interval '1 h'")

    found = only(checkup(url), "store's clock")

    assert found.severity is Severity.WARNING
    assert re.search("set back by at least 3,(600|599|598) s", found.text)


# -- schedules ---------------------------------------------------------------------------------


def test_a_schedule_that_cannot_be_read(url: str, app: Windlass) -> None:
    hire(app)
    app.schedules.put("greet", key="odd", interval="1h")
    tamper(url, """update @schedules set rule = '{"interval": "never"}'""")

    report = checkup(url)

    (found,) = of(report, "schedules")
    assert found.severity is Severity.ERROR
    assert found.text.startswith("Schedule odd cannot be read: ")
    assert report.worst is Severity.ERROR


def test_a_schedule_whose_job_nobody_serves(url: str, app: Windlass) -> None:
    hire(app, jobs=("post",))
    app.schedules.put("greet", key="nightly", interval="1h")
    app.schedules.put("greet", key="paused", interval="1h")
    app.schedules.pause("paused")

    found = only(checkup(url), "schedules")

    assert found.severity is Severity.WARNING
    assert found.text == "No worker serves 'greet', which schedule nightly makes runs of."


def test_a_schedule_that_nobody_fires(url: str, app: Windlass) -> None:
    hire(app)
    app.schedules.put("greet", key="nightly", interval="1h")
    if url.startswith("sqlite"):
        tamper(url, "update schedules set next_slot = next_slot - 7200 * 1000000")
    else:
        tamper(url, "update @schedules set next_slot = next_slot - interval '2 h'")

    (found,) = of(checkup(url), "schedules")

    assert found.severity is Severity.WARNING
    assert found.text.startswith("1 schedule with slots that nobody fired: nightly that of ")


def test_a_schedule_that_missed_slots_lately(url: str, app: Windlass) -> None:
    hire(app)
    made = app.schedules.put("greet", key="nightly", interval="1h")
    missed = app.sources.now() - timedelta(hours=2)
    if url.startswith("sqlite"):
        at = str(int(missed.timestamp() * 1_000_000))
        ident = f"x'{made.id.replace('-', '')}'"
    else:
        at, ident = f"'{missed.isoformat()}'", f"'{made.id}'"
    values = f"'default', {ident}, {at}, 'missed', {at}"
    tamper(url, "update @schedules set missed = 1")
    tamper(
        url,
        "insert into @schedule_slots (tenant, schedule, slot, outcome, at) " + f"values ({values})",
    )

    (found,) = of(checkup(url), "schedules")
    assert found.severity is Severity.WARNING
    assert found.text.startswith("Schedule nightly missed 1 slot lately")
    assert only(checkup(url, recent=3600.0), "schedules").severity is Severity.OK
