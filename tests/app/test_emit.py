"""`ctx.emit()`: events of a program's own, under the token of the run that tells them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.fixtures.apps import PATIENCE, working
from windlass import (
    BadOption,
    BadPayload,
    Context,
    EventType,
    PayloadTooLarge,
    SyncContext,
    Windlass,
)
from windlass.domain.event_names import KEPT, make_event

SQL = Path(windlass.__file__).parent / "store/sql"


async def emitted(app: Windlass, *runs: str) -> list[dict[str, Any]]:
    """What these runs have told, once they have ended."""
    for run in runs:
        await app.aresult(run, timeout=PATIENCE)
    found = []
    async with asyncio.timeout(PATIENCE):
        async for event in app.aevents(since="start", types="order.shipped"):
            assert event.attempt == 1
            found.append(event.data)
            if len(found) == len(runs):
                break
    return found


async def test_events_of_handlers_are_told_in_the_order_of_their_run(app: Windlass) -> None:
    @app.job
    async def ship(ctx: Context, order: int) -> None:
        await ctx.step("pack", lambda: None)
        await ctx.emit("order.shipped", {"order": order})
        await ctx.emit("mail.sent")

    @app.job
    def ship_in_thread(ctx: SyncContext, order: int) -> None:
        ctx.emit("order.shipped", {"order": order})

    async with working(app):
        run = await ship.aenqueue(1)
        other = await ship_in_thread.aenqueue(2)
        told = await emitted(app, run.id, other.id)
    assert sorted(data["order"] for data in told) == [1, 2]
    events = await run.aevents()
    assert [(event.type.value, event.seq) for event in events] == [
        ("run.enqueued", 1), ("run.started", 2), ("step.succeeded", 3), ("order.shipped", 4),
        ("mail.sent", 5), ("run.succeeded", 6),
    ]  # fmt: skip


async def test_a_step_is_told_once_however_often_the_handler_runs(app: Windlass) -> None:
    @app.job
    async def ship(ctx: Context) -> None:
        await ctx.step("tell", ctx.emit, "order.shipped", {"order": 7})
        await ctx.emit("order.seen")
        await ctx.wait_for("go")

    async with working(app):
        run = await ship.aenqueue()
        async with asyncio.timeout(PATIENCE):
            async for event in app.aevents(since="start", run=run):
                if event.type == "run.waiting":
                    break
        await run.asignal("go")
        await app.aresult(run, timeout=PATIENCE)
    names = [event.type.value for event in await run.aevents()]
    assert (names.count("order.shipped"), names.count("order.seen")) == (1, 2)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("run.shipped", None, BadOption),
        ("windlass.own", None, BadOption),
        ("shipped", None, BadOption),
        ("Order.Shipped", None, BadOption),
        ("o." + "x" * 99, None, BadOption),
        ("order.shipped", [1], BadOption),
        ("order.shipped", {"at": object()}, BadPayload),
        ("order.shipped", {"text": "x" * 17_000}, PayloadTooLarge),
    ],
)
def test_what_is_no_event_is_refused(name: str, data: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make_event(name, data)


def test_sql_keeps_the_same_first_words() -> None:
    function = SQL / "postgres/functions/549_emit.sql"
    words = re.search(r"array\[(.*?)\]", function.read_text(), re.DOTALL)
    assert words is not None
    assert tuple(re.findall(r"'(\w+)'", words[1])) == KEPT
    assert {kind.partition(".")[0] for kind in EventType} <= set(KEPT)
