"""The pages on steps, waiting, children and pipelines: their examples, run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.docs.conftest import Load
from tests.fixtures.pages import Examples
from windlass import Context, Retry, Run, Windlass
from windlass.domain.phase import overall
from windlass.testing import answer, crash_after, drain, isolated

STEPS = "docs/steps.md"
WAITING = "docs/waiting.md"
CHILDREN = "docs/children.md"
CHAINS = "docs/chains.md"
CONTROL = "docs/control.md"
PIPELINES = "docs/pipelines.md"
BATCHES = "docs/batches.md"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def shop() -> Iterator[Windlass]:
    """An application for parts of a handler."""
    with isolated(Windlass()) as app:
        yield app


def paths(run: Run) -> list[str]:
    """The recorded steps of a run."""
    return [step.path for step in run.steps()]


def end(app: Windlass, run: Run) -> Run:
    """Let the run go on to its end, over crashes, retries and sleeps."""
    drain(app, with_scheduled=True)
    return run.refresh()


@pytest.mark.examples(STEPS, "order.py")
def test_an_order_is_charged_once(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    page = load("order.py")
    run = page.fulfil.enqueue(order_id=7)
    with crash_after(page.app, "charge"), crash_after(page.app, "mail"):
        drain(page.app).check()
    assert run.refresh().result == "payment-7"
    assert capsys.readouterr().out == "order 7: payment-7\n"


@pytest.mark.examples(STEPS, "mirror.py")
def test_a_run_goes_on_with_new_arguments(load: Load) -> None:
    page = load("mirror.py")
    run = page.mirror.enqueue()
    with crash_after(page.app, "fetch"):
        drain(page.app).check()
    assert (run.refresh().result, run.crash_count) == (25, 0)
    assert [step.path for step in run.steps(generation=1)] == ["fetch"]
    inputs = [msgspec.json.decode(one.input) for one in run.generations()]
    assert inputs == [{}, {"cursor": 10, "copied": 10}, {"cursor": 20, "copied": 20}]
    assert run.input == {"cursor": 25, "copied": 25}


@pytest.mark.examples(STEPS, "order.py", "In tests")
def test_a_stand_in_takes_the_place_of_the_card(load: Load, examples: Examples) -> None:
    page = load("order.py")
    examples.run("In tests", app=page.app, fulfil=page.fulfil)
    (run,) = page.app.list()
    assert (run.result, run.crash_count) == ("payment-7", 1)


@pytest.mark.examples(STEPS, "Exactly once, in your own database")
def test_a_step_is_committed_with_what_it_wrote(shop: Windlass, examples: Examples) -> None:
    with shop.transaction() as tx:
        tx.execute("create table payments (id integer)")

    async def book_payment(tx: Any, order_id: int) -> None:
        await tx.execute("insert into payments values (?)", [order_id])

    @shop.job
    async def book(ctx: Context, order_id: int) -> None:
        given = {"app": shop, "ctx": ctx, "book_payment": book_payment, "order_id": order_id}
        await examples.arun("Exactly once, in your own database", **given)
        if ctx.attempt == 1:
            raise ConnectionError  # after the commit

    run = end(shop, book.enqueue(7))
    assert (run.status, run.attempt, paths(run)) == ("succeeded", 2, ["book"])
    with shop.transaction() as tx:
        assert tx.execute("select id from payments") == [(7,)]


@pytest.mark.examples(STEPS, "ledger.py")
def test_a_run_ends_with_what_it_wrote(load: Load) -> None:
    page = load("ledger.py")
    page.app.migrate()
    run = page.book.using(max_attempts=2).enqueue(7)
    drain(page.app)  # there is no table
    assert run.refresh().status == "scheduled"
    with page.app.transaction() as tx:
        tx.execute("create table bookings (id integer)")
    assert (end(page.app, run).result, run.attempt) == (7, 2)
    with page.app.transaction() as tx:
        assert tx.execute("select id from bookings") == [(7,)]


class CardDeclined(Exception):
    """For good."""


@pytest.mark.examples(STEPS, "A step that fails")
def test_a_step_that_fails_is_tried_again(shop: Windlass, examples: Examples) -> None:
    broken = ConnectionError()
    left: dict[str, list[Exception]] = {
        "twice": [broken] * 2,
        "three times": [broken] * 3,
        "declined": [CardDeclined()],
    }
    called: list[str] = []

    async def charge_card(order: str) -> str:
        called.append(order)
        if left[order]:
            raise left[order].pop()
        return "payment-7"

    @shop.job
    async def pay(ctx: Context, order: str) -> Any:
        names = {"charge_card": charge_card, "CardDeclined": CardDeclined, "Retry": Retry}
        got = await examples.arun("A step that fails", ctx=ctx, order_id=order, **names)
        return got["payment"]

    twice, thrice, declined = [pay.enqueue(order) for order in left]
    assert end(shop, twice).result == "payment-7"
    for run in (thrice.refresh(), declined.refresh()):  # another attempt could only fail again
        assert run.error is not None
        assert (run.status, run.failures, run.error.type) == (
            "failed",
            1,
            "windlass.errors.StepFailed",
        )
    assert [called.count(order) for order in left] == [3, 3, 1]


@pytest.mark.examples(STEPS, "Names", "Names (2)")
def test_steps_have_keys(shop: Windlass, examples: Examples) -> None:
    sent: list[int] = []
    reserve = examples.run("Names (2)", app=shop)["reserve"]

    @shop.job
    async def mail_all(ctx: Context) -> Any:
        given = {"find_orders": lambda: [7, 8], "send_mail": sent.append}
        await examples.arun("Names", ctx=ctx, **given)
        return await reserve(9)

    run = mail_all.enqueue()
    with crash_after(shop, "mail"):
        drain(shop).check()
    assert (sent, run.refresh().crash_count, run.result) == ([7, 8], 1, "shelf-9")
    assert sorted(paths(run)) == ["find", "mail#7", "mail#8", "reserve#9"]
    assert asyncio.run(reserve(9)) == "shelf-9"  # elsewhere it is just called


@pytest.mark.examples(STEPS, "At the same time")
def test_steps_run_at_the_same_time(shop: Windlass, examples: Examples) -> None:
    both = asyncio.Barrier(2)

    async def look_up_stock(item: str) -> int:
        await both.wait()
        return 3

    async def look_up_price(item: str) -> int:
        await both.wait()
        return 7

    @shop.job
    async def offer(ctx: Context, item: str) -> list[int]:
        names = {"look_up_stock": look_up_stock, "look_up_price": look_up_price}
        got = await examples.arun("At the same time", asyncio=asyncio, ctx=ctx, item=item, **names)
        return [got["stock"], got["price"]]

    run = offer.enqueue("tea")
    drain(shop).check()
    assert (run.refresh().result, sorted(paths(run))) == ([3, 7], ["price", "stock"])


@pytest.mark.examples(STEPS, "Time, chance, and new code")
def test_new_code_leaves_old_runs_their_way(shop: Windlass, examples: Examples) -> None:
    sent, is_new = list[str](), False

    @shop.job
    async def deliver(ctx: Context) -> None:
        if is_new:
            name = "Time, chance, and new code"
            await examples.arun(name, ctx=ctx, send_parcel=lambda: sent.append(ctx.run_id))
        await ctx.step("label", int)
        await ctx.sleep("1d")

    old = deliver.enqueue()
    drain(shop)
    is_new = True
    new = deliver.enqueue()
    drain(shop, with_scheduled=True).check()
    assert (old.refresh().status, sent) == ("succeeded", [new.id])


@pytest.mark.examples(WAITING, "trial.py")
@pytest.mark.parametrize(("paid", "became"), [(True, "customer"), (False, "guest")])
def test_a_trial_of_thirty_days(load: Load, paid: bool, became: str) -> None:
    page = load("trial.py")
    run = page.trial.enqueue(user_id=7)
    with ExitStack() as stack:
        if paid:
            stack.enter_context(answer(page.app, "paid", {"amount": 7}))
        drain(page.app, with_scheduled=True).check()
    assert run.refresh().result == became


@pytest.mark.examples(WAITING, "trial.py", "Signals", "In tests")
def test_a_signal_ends_the_trial(load: Load, examples: Examples) -> None:
    page = load("trial.py")
    run = page.trial.enqueue(user_id=7)
    for _ in range(2):  # with the same key, only the first counts
        examples.run("Signals", app=page.app, run_id=run.id)
    assert [(signal.name, signal.key) for signal in run.signals()] == [("paid", "invoice-7")]
    assert end(page.app, run).result == "customer"
    examples.run("In tests", app=page.app, trial=page.trial)


@pytest.mark.examples(CHILDREN, "report.py", "In tests")
def test_a_report_of_regions(load: Load, examples: Examples) -> None:
    page = load("report.py")
    run = page.report.enqueue(regions=["north", "south"])
    assert end(page.app, run).result == "12 in all, 7 in the south"
    assert [child.result for child in run.children()] == [5, 7, 7]
    examples.run("In tests", app=page.app, report=page.report)
    assert len(page.app.list(job="sales_of")) == 3, "where something stands in, none is started"


@pytest.mark.examples(CHILDREN, "One child", "Many children")
def test_children_one_by_one_and_many(shop: Windlass, examples: Examples) -> None:
    @shop.job
    async def sales_of(region: str) -> int:
        return len(region)

    @shop.job
    async def report(ctx: Context) -> Any:
        one = await examples.arun("One child", ctx=ctx, sales_of=sales_of)
        many = await examples.arun(
            "Many children", ctx=ctx, resize=sales_of, images=["a", "bc", "def"]
        )
        return [one["total"], many["thumbnails"]]

    run = report.enqueue()
    assert end(shop, run).result == [5, [1, 2, 3]]
    assert sorted(paths(run)) == ["sales_of", "sales_of#2", "sales_of#3"]


@pytest.mark.examples(CHAINS, "gallery.py", "After several runs")
def test_runs_come_after_each_other(load: Load, examples: Examples) -> None:
    page = load("gallery.py")
    last = page.app.get(page.publish("home"))
    (second,) = last.after()
    assert end(page.app, last).result == "Look: picture of home, 200 wide"
    assert second.refresh().result == "picture of home, 200 wide"

    made = examples.run("After several runs", fetch=page.fetch, announce=page.announce)
    assert len(made["done"].after()) == 3
    assert end(page.app, made["done"]).result == "Look: all three are there"


@pytest.mark.examples(WAITING, "Whatever comes first")
def test_whatever_comes_first_wins(shop: Windlass, examples: Examples) -> None:
    @shop.job
    async def remind(ctx: Context) -> Any:
        return (await examples.arun("Whatever comes first", ctx=ctx)).get("payment")

    paid, late = remind.enqueue(), remind.enqueue()
    paid.signal("paid", 7)
    drain(shop, with_scheduled=True).check()
    assert (paid.refresh().result, late.refresh().result) == (7, None)


@pytest.mark.examples(WAITING, "release.py")
def test_people_are_asked(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    page = load("release.py")
    runs = [page.release.enqueue(version=str(n)) for n in range(3)]
    drain(page.app)
    told = "Deploy 0 to production? Answer with 32 secret characters."
    assert capsys.readouterr().out.splitlines()[0] == told
    page.app.approve(runs[0].id, by="ann")
    page.app.reject(runs[1].id, by="bob", comment="not on a Friday")
    drain(page.app, until="3d").check()
    results = [run.refresh().result for run in runs]
    assert results == [
        "deployed, approved by ann", "rejected by bob: not on a Friday", "nobody answered",
    ]  # fmt: skip


@pytest.mark.examples(WAITING, "invoice.py")
def test_a_race_in_a_thread(load: Load) -> None:
    page = load("invoice.py")
    runs = [page.invoice.enqueue(order_id=n) for n in (1, 2)]
    drain(page.app)
    runs[0].signal("paid", "cash")
    drain(page.app, until="4d").check()
    results = [run.refresh().result for run in runs]
    assert results == ["order 1: cash", "order 2 was not paid"]


@pytest.mark.examples(PIPELINES, "film.py", "How far it is")
def test_a_film_goes_through_its_phases(
    load: Load, examples: Examples, capsys: pytest.CaptureFixture[str]
) -> None:
    page = load("film.py")
    run = page.transcode.enqueue("https://example.com/a.mov")
    with crash_after(page.app, "process"):
        drain(page.app).check()
    assert run.refresh().result == {
        "from": "https://example.com/a.mov",
        "to": "/tmp/a.mov.720.mp4",
    }
    assert [(each.name, each.status) for each in run.phases()] == [
        ("download", "succeeded"), ("process", "succeeded"), ("upload", "succeeded"),
    ]  # fmt: skip
    assert (run.progress, run.crash_count) == (1.0, 1)
    examples.run("How far it is", run=run)
    assert capsys.readouterr().out.splitlines()[0].split() == ["download", "succeeded", "100%"]


@pytest.mark.examples(PIPELINES, "What runs again, and what does not", "Without Windlass")
def test_phases_have_names_and_terms_of_their_own(shop: Windlass, examples: Examples) -> None:
    def download(url: str) -> str:
        return f"{url}.raw"

    async def process(url: str) -> str:
        return f"{url}.mp4"

    async def upload(process: str) -> str:
        return process

    phases = {"download": download, "process": process, "upload": upload}
    saved: list[Any] = []

    def save(*told: Any) -> None:
        saved.append(told)

    async def alone() -> None:
        given = {"url": "film", "results_so_far": {}, "save": save}
        await examples.arun("Without Windlass", **phases, **given)

    asyncio.run(alone())
    assert len(saved) == 3

    examples.run("What runs again, and what does not", app=shop, **phases)
    run = shop.enqueue("transcode", {"url": "film"})
    assert end(shop, run).result == "film.mp4"
    assert sorted(paths(run)) == ["fetch", "process", "upload"]


@pytest.mark.examples(PIPELINES, "Units")
def test_units_are_counted(shop: Windlass, examples: Examples) -> None:
    async def convert(row: int) -> bool:
        return row != 3

    @shop.job
    async def rows(ctx: Context) -> None:
        await examples.arun("Units", ctx=ctx, rows=range(10), convert=convert, failed=0)

    run = end(shop, rows.enqueue())
    assert run.units is not None
    assert (run.units.done, run.units.failed, run.units.total) == (9, 1, 10)


def test_the_table_of_progress_is_right() -> None:
    text = (ROOT / PIPELINES).read_text("utf-8")
    rows = re.findall(r"^\| (\d)\w+ of (\d) \| (\d+) % \| (\d+) % \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for place, phases, own, whole in (map(int, row) for row in rows):
        assert overall(place - 1, own / 100, phases) * 100 == whole


@pytest.mark.examples(CONTROL, "control.py")
@pytest.mark.examples(CONTROL, "pause.py")
def test_a_run_is_paused_and_goes_on(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    page = load("control.py")
    run = load("pause.py").run
    assert capsys.readouterr().out == "paused\nqueued\n"
    drain(page.app).check()
    assert run.refresh().result == 300


@pytest.mark.examples(CONTROL, "control.py")
@pytest.mark.examples(CONTROL, "audit.py")
def test_the_log_says_who_paused_a_run(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("control.py")
    load("audit.py")
    assert capsys.readouterr().out == "ann pause the shop is down\n"


@pytest.mark.examples(CONTROL, "control.py")
@pytest.mark.examples(CONTROL, "queues.py")
def test_a_queue_and_a_job_are_paused(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    page = load("control.py")
    run = load("queues.py").run
    assert capsys.readouterr().out == "queue default the shop is down\n"
    assert page.app.pauses() == []
    drain(page.app).check()
    assert run.refresh().result == 300


@pytest.mark.examples(CONTROL, "loop.py")
def test_a_loop_may_stop_at_its_checkpoints(load: Load) -> None:
    page = load("loop.py")
    run = page.rebuild_index.enqueue(rows=3)
    drain(page.app).check()
    assert run.refresh().status == "succeeded"


@pytest.mark.examples(CONTROL, "control.py")
@pytest.mark.examples(CONTROL, "restart.py")
def test_a_canceled_run_begins_anew(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    page = load("control.py")
    run = load("restart.py").run
    assert capsys.readouterr().out == "queued\n"
    drain(page.app).check()
    assert run.refresh().result == 300


@pytest.mark.examples(BATCHES, "reindex.py")
def test_a_batch_is_done_unit_by_unit(load: Load) -> None:
    page = load("reindex.py")
    run = page.reindex.enqueue(units=range(10_000), index="next")
    assert end(page.app, run).raw_result["succeeded"] == 10_000
    assert sorted(page.indexed) == list(range(10_000))
    counts = run.batch_counts()
    assert (counts.total, counts.processed, counts.failed) == (10_000, 10_000, 0)


@pytest.mark.examples(BATCHES, "export.py")
def test_a_batch_reads_its_source(load: Load) -> None:
    page = load("export.py")
    run = page.export.enqueue(first=1)
    assert end(page.app, run).raw_result["total"] == 1200
    assert len(page.exported) == 1200


@pytest.mark.examples(BATCHES, "pause_batch.py")
def test_a_batch_is_paused_and_goes_on(load: Load) -> None:
    page = load("pause_batch.py")
    run = page.resize.enqueue(units=range(10_000))
    assert run.pause(reason="the disk is full").status == "paused"
    run.resume()
    assert end(page.app, run).raw_result["succeeded"] == 10_000


@pytest.mark.examples(BATCHES, "orders.py")
def test_a_batch_reads_an_artifact(load: Load) -> None:
    page = load("orders.py")
    rows = ["number,note", *(f"{number},hello" for number in range(1000))]
    run = page.load.enqueue(units=page.app.artifacts.put("orders.csv", "\n".join(rows).encode()))
    assert end(page.app, run).raw_result["total"] == 1000
    assert sorted(page.seen) == list(range(1000))


@pytest.mark.examples(BATCHES, "sources.py")
def test_a_batch_reads_rows_by_key(load: Load) -> None:
    page = load("sources.py")
    assert end(page.app, page.greet.enqueue()).raw_result["total"] == 1200
    assert len(page.greeted) == 1200


@pytest.mark.examples(BATCHES, "mails.py")
def test_failed_units_of_a_batch_are_done_again(load: Load) -> None:
    page = load("mails.py")
    run = page.send_mail.enqueue(units=range(10))
    assert end(page.app, run).raw_result["failed"] == 2
    assert [(unit.n, unit.error.message) for unit in run.failed_units()] == [
        (3, "no address for 3"), (7, "no address for 7"),
    ]  # fmt: skip
    page.blocked.clear()
    again = run.retry_failed()
    assert end(page.app, again).raw_result["succeeded"] == 2
