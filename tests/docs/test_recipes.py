"""The recipes, each run as it is written, with what it claims to do."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.docs.conftest import Load
from tests.fixtures.inner_pytest import run_pytest
from tests.fixtures.pages import Examples
from windlass import KeyConflict, SyncContext
from windlass.testing import clock_of, drain, given, run_job

RECIPES = "docs/recipes.md"


def request(
    page: Any, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Ask the recipe's web application, without a server and without its lifespan."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def ask() -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
        }
        await page.api(scope, receive, send)
        await page.app.aclose()

    asyncio.run(ask())
    return sent[0]["status"], json.loads(b"".join(one.get("body", b"") for one in sent[1:]))


@pytest.mark.examples(RECIPES, "newsletter.py")
def test_newsletter_goes_to_each_reader_once(load: Load) -> None:
    page, sent = load("newsletter.py"), []

    async def deliver(to: str, text: str) -> None:
        sent.append(to)

    page.deliver = deliver
    readers = [f"{n}@example.org" for n in range(300)]
    assert page.send_newsletter("may", readers) == 300
    assert page.send_newsletter("may", [*readers, "new@example.org"]) == 1
    assert len(drain(page.app).check().succeeded) == 301
    assert sorted(sent) == sorted([*readers, "new@example.org"])


@pytest.mark.examples(RECIPES, "payments.py")
def test_payment_has_one_key_for_all_attempts(load: Load) -> None:
    page, keys = load("payments.py"), []

    def call_bank(order_id: int, cents: int, *, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise ConnectionError
        return "ok"

    page.call_bank = call_bank
    run = page.pay(7, 1999)
    assert page.pay(7, 1999) == run
    with pytest.raises(KeyConflict):
        page.pay(7, 5)
    drain(page.app, with_scheduled=True).check()
    assert keys == [run, run]


@pytest.mark.examples(RECIPES, "payments.py")
def test_declined_card_is_not_tried_again(load: Load) -> None:
    page = load("payments.py")

    def call_bank(order_id: int, cents: int, *, idempotency_key: str) -> str:
        raise page.CardDeclined

    page.call_bank = call_bank
    page.pay(7, 1999)
    page.pay(8, 0)
    failed = drain(page.app, with_scheduled=True).failed
    assert [(run.attempt, run.failure) for run in failed] == [(1, "fatal"), (1, "fatal")]


@pytest.mark.examples(RECIPES, "report.py")
def test_report_is_about_the_day_before_its_slot(load: Load) -> None:
    page = load("report.py")
    slot = datetime(2030, 6, 1, 1, 0, tzinfo=UTC)
    assert run_job(page.nightly_report, ctx=given(slot=slot)) == "report-2030-05-31.pdf"
    assert [run.result for run in drain(page.app, until="3d").check().runs] == [
        f"report-{day}.pdf" for day in ("2029-12-31", "2030-01-01", "2030-01-02")
    ]


@pytest.mark.examples(RECIPES, "report.py")
def test_missed_nights_are_made_up_for(load: Load) -> None:
    page = load("report.py")
    page.app.schedules.sync()
    clock_of(page.app).advance("10d")
    assert len(drain(page.app).check().runs) == 7


@pytest.mark.examples(RECIPES, "uploads.py")
def test_upload_becomes_a_thumbnail(load: Load) -> None:
    page = load("uploads.py")
    run = page.save_upload(b"x" * 100)
    drain(page.app).check()
    thumbnail = Path(page.app.get(run).raw_result)
    assert thumbnail.read_bytes() == b"x" * 64
    assert not thumbnail.with_suffix(".part").exists()


@pytest.mark.examples(RECIPES, "webhooks.py")
def test_webhook_that_comes_twice_is_handled_once(load: Load) -> None:
    page = load("webhooks.py")
    headers = {"X-Event-Id": "evt-1", "X-Event-Kind": "paid"}
    first = request(page, "POST", "/webhooks", {"order": 7}, headers)
    assert first[0] == 202
    assert request(page, "POST", "/webhooks", {"order": 7}, headers) == first
    done = drain(page.app).check()
    assert [run.result for run in done.runs] == ["paid handled"]


@pytest.mark.examples(RECIPES, "slow_api.py")
def test_slow_api_is_asked_as_the_server_wants(load: Load) -> None:
    page, clock, asked = load("slow_api.py"), None, []
    clock = clock_of(page.app)
    start = clock.now()
    answers = [page.Busy(90), {"state": "pending"}, {"state": "maintenance"}, {"state": "done"}]

    async def ask(item: int) -> dict[str, object]:
        asked.append((clock.now() - start).total_seconds())
        answer: Any = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    page.ask = ask
    run = page.fetch.enqueue(1)
    drain(page.app, with_scheduled=True)
    run.refresh()
    assert (run.status, run.raw_result, run.failures) == ("succeeded", {"state": "done"}, 2)
    waited = [round(b - a) for a, b in pairwise(asked)]
    assert waited == [90, 30, 600]


@pytest.mark.examples(RECIPES, "slow_api.py")
def test_slow_api_gives_up_on_what_is_gone(load: Load) -> None:
    page = load("slow_api.py")

    async def ask(item: int) -> dict[str, object]:
        raise page.Gone

    page.ask = ask
    page.fetch.enqueue(1)
    [failed] = drain(page.app, with_scheduled=True).failed
    assert (failed.attempt, failed.failure) == (1, "fatal")


@pytest.mark.examples(RECIPES, "fan_out.py")
def test_fan_out_waits_for_slow_parts_and_is_not_repeated(load: Load) -> None:
    page = load("fan_out.py")

    @page.app.middleware  # type: ignore[untyped-decorator]
    def troubled(ctx: SyncContext) -> Iterator[None]:
        if ctx.job == "ocr" and ctx.attempt < 4:
            raise ConnectionError  # until after the first look of `join`
        yield
        if ctx.job == "split" and ctx.attempt == 1:
            raise ConnectionError  # after it has enqueued everything

    run = page.split.enqueue(3)
    done = drain(page.app, with_scheduled=True).check()
    [joined] = [one for one in done.runs if one.job == "join"]
    assert joined.raw_result == "text of page 1\ntext of page 2\ntext of page 3"
    assert {one.enqueued_by for one in done.runs if one.job != "split"} == {run.id}
    assert (len(page.app.list(job="ocr")), joined.failures) == (3, 0)
    assert joined.attempt > 1


@pytest.mark.examples(RECIPES, "refresh.py")
def test_refresh_is_unique_while_it_lives(load: Load) -> None:
    page = load("refresh.py")
    assert [page.price_changed(7), page.price_changed(7), page.price_changed(8)] == [
        True,
        False,
        True,
    ]
    drain(page.app).check()
    assert page.price_changed(7)


@pytest.mark.examples(RECIPES, "long_job.py")
def test_long_job_goes_on_where_it_stopped(load: Load) -> None:
    page, worked = load("long_job.py"), []

    def work_on(row: int) -> None:
        worked.append(row)
        if worked == list(range(500)):
            raise ConnectionError

    page.work_on = work_on
    page.import_rows.enqueue()
    drain(page.app, with_scheduled=True)
    assert worked == [*range(500), *range(499, 1000)]
    stopped = run_job(page.import_rows, ctx=given(stopping=True))
    assert type(stopped).__name__ == "Snooze"
    with pytest.raises(asyncio.CancelledError):
        run_job(page.import_rows, ctx=given(canceled=True))


@pytest.mark.examples(RECIPES, "orders.py")
def test_order_and_confirmation_are_stored_together(load: Load) -> None:
    page = load("orders.py")
    run = page.place_order(7, "tea")
    with pytest.raises(ValueError, match="needs an item"):
        page.place_order(8, "")
    assert [one.id for one in page.app.list()] == [run]
    with page.app.transaction() as tx:
        assert tx.execute("select id, item from orders") == [(7, "tea")]


@pytest.mark.examples(RECIPES, "progress.py")
def test_progress_is_shown(load: Load) -> None:
    page = load("progress.py")
    _, answer = request(page, "POST", "/conversions/4")
    path = f"/conversions/{answer['run']}"
    assert request(page, "GET", path)[1]["status"] == "queued"
    drain(page.app).check()
    assert request(page, "GET", path)[1] == {
        "status": "succeeded",
        "progress": 0.75,
        "message": "page 4 of 4",
        "result": "book.pdf",
    }
    assert request(page, "GET", "/conversions/nothing")[0] == 404


@pytest.mark.examples(RECIPES, "dead_letters.py")
def test_dead_letters_are_told_once(load: Load) -> None:
    page, told = load("dead_letters.py"), list[str]()
    page.tell_somebody = told.append
    for number in range(4):
        page.fragile.enqueue(number)
    drain(page.app)
    page.report_dead_letters.enqueue()
    drain(page.app).check()
    assert sorted(text.partition(": ")[2] for text in told) == ["1 is odd", "3 is odd"]
    assert page.app.list(dead=True) == []


@pytest.mark.examples(RECIPES, "observed.py")
def test_middleware_measures_and_lines_name_their_run(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    from windlass.logs import RunFields

    page = load("observed.py")
    caplog.handler.addFilter(RunFields(missing="-"))
    caplog.set_level(logging.INFO, "shop")
    run = page.compute.enqueue(3)
    drain(page.app).check()
    assert list(page.took) == ["compute"]
    [line] = [record for record in caplog.records if record.message == "computing"]
    assert vars(line)["run"] == run.id


@pytest.mark.examples(RECIPES, "payments.py", "test_payments.py")
def test_test_of_the_page_passes(examples: Examples, tmp_path: Path) -> None:
    examples.write(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nwindlass_app = payments:app\n")
    run_pytest(tmp_path, "-pno:asyncio", passed=1)
