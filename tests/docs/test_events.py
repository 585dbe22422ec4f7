"""The page on events: its examples, run, and the names in its table."""

from __future__ import annotations

import re
import threading

import pytest

from tests.docs.conftest import Load
from tests.fixtures.pages import ROOT
from windlass import Event, EventType, ListenerTooSlow
from windlass.testing import drain

ELSEWHERE = {
    *("job:enqueued", "job:started", "job:progress", "job:phase:completed", "job:completed"),
    *("job:failed", "job:retrying", "job:cancelled", "job:stale", "job:deleted"),
    *("job:webhook:delivered", "job:webhook:failed"),
    *("job.started", "job.completed", "job.failed"),
    *("pending", "active", "completed", "failed", "cancelled"),
    *("scheduled", "queued", "running", "succeeded", "canceled"),
    *("dead", "paused"),
}  # the names of events, and the statuses, of those that we are compared with
FIELDS = {"run.progress", "run.units"}


@pytest.mark.examples("docs/events.md", "watch.py", "here.py")
def test_what_you_do_in_the_block_is_seen(load: Load) -> None:
    watch, here = load("watch.py"), load("here.py")
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.extend(here.enqueue_and_watch()))
    thread.start()
    while not watch.app.list():
        pass
    drain(watch.app)
    thread.join(30)
    assert seen == ["run.enqueued", "run.started", "run.succeeded"]


@pytest.mark.examples("docs/events.md", "watch.py")
def test_ends_are_printed(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    watch = load("watch.py")
    good, bad = watch.fetch.enqueue("https://example.com"), watch.fetch.enqueue("example.com")
    drain(watch.app, until="1h")
    watch.watch("start")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed if line.startswith("run.")] == [
        ["run.succeeded", good.id],
        ["run.failed", bad.id],
    ]
    assert "only https" in printed[-1]


@pytest.mark.examples("docs/events.md", "watch.py", "steady.py")
def test_a_slow_listener_goes_on(load: Load) -> None:
    watch, steady = load("watch.py"), load("steady.py")
    runs = [watch.fetch.enqueue("https://example.com").id for _ in range(3)]
    seen: list[str] = []

    def handle(event: Event) -> None:
        seen.append(event.subject)
        if len(seen) == 1:
            raise ListenerTooSlow(event.id, 1)
        if len(seen) == 3:
            raise _Enough

    with pytest.raises(_Enough):
        steady.follow(handle, "start")
    assert seen == runs


@pytest.mark.examples("docs/events.md", "watch.py", "shipping.py")
def test_a_handler_tells_an_event(load: Load) -> None:
    shipping = load("watch.py") and load("shipping.py")
    run = shipping.ship.enqueue(order=7)
    drain(shipping.app)
    (event,) = shipping.app.events(since="start", types="order.shipped", follow=False)
    assert (event.run, event.data) == (run.id, {"order": 7})


@pytest.mark.examples("docs/events.md", "watch.py", "alarm.py")
async def test_a_worker_calls_listeners(load: Load) -> None:
    alarm = load("watch.py") and load("alarm.py")
    async with alarm.app.running() as worker:
        run = await alarm.fetch.using(max_attempts=1).aenqueue(url="example.com")
        await worker.drained()
    assert alarm.messages == ["fetch failed: only https"]
    assert (await run.arefresh()).status == "failed"


class _Enough(Exception):
    """To leave a loop that has no end."""


def test_the_table_has_the_names_of_others_and_ours() -> None:
    page = (ROOT / "docs/events.md").read_text()
    rows = re.findall(
        r"^\| (`.*) \| (.*) \|$", page.partition("## Names elsewhere")[2], re.MULTILINE
    )
    theirs = {name for left, _ in rows for name in re.findall(r"`([^`]+)`", left)}
    ours = {name for _, right in rows for name in re.findall(r"`([^`]+)`", right)}
    assert theirs == ELSEWHERE
    assert ours - FIELDS <= set(EventType)
    assert {EventType.ENQUEUED, EventType.STARTED, EventType.SUCCEEDED, EventType.FAILED} <= ours
