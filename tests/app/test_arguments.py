"""Arguments arrive in the handler as it annotates them, and results as JSON."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from tests.fixtures.apps import opened, working
from windlass import BadArguments, Windlass

IDENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
MOMENT = datetime(2030, 5, 17, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=2)))


@dataclass
class Point:
    """A dataclass."""

    x: int
    y: float = 0.5


class Address(TypedDict):
    """A typed dict."""

    city: str
    zip: int


class Order(msgspec.Struct, frozen=True):
    """A struct with structs in it."""

    id: UUID
    total: Decimal
    points: list[Point] = []


class Customer(pydantic.BaseModel):
    """A model."""

    name: str
    since: datetime
    tags: set[str] = set()


class Color(enum.Enum):
    """An enumeration of texts."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """An enumeration of numbers."""

    LOW = 1
    HIGH = 2


GIVEN: dict[str, Any] = {
    "point": Point(1, 2.5),
    "address": Address(city="Bonn", zip=53111),
    "order": Order(IDENT, Decimal("12.50"), [Point(3)]),
    "customer": Customer(name="Ada", since=MOMENT, tags={"vip"}),
    "color": Color.BLUE,
    "level": Level.HIGH,
    "ident": IDENT,
    "price": Decimal("0.10"),
    "moment": MOMENT,
    "day": date(2030, 5, 17),
    "pair": (1, "two"),
    "names": {"a", "b"},
    "blob": b"\x00\xff",
    "maybe": None,
    "mode": "fast",
    "by_color": {"x": Color.RED},
    "anything": {"deep": [1, {"er": None}]},
}


def check(seen: dict[str, Any]) -> None:
    assert seen == GIVEN
    for name, value in GIVEN.items():
        assert type(seen[name]) is type(value), name
    assert type(seen["order"].points[0]) is Point
    assert seen["moment"].utcoffset() is not None


async def test_typed_arguments_reach_the_handler_as_typed(app: Windlass) -> None:
    seen: list[dict[str, Any]] = []

    @app.job
    async def on_loop(
        point: Point, address: Address, order: Order, customer: Customer, color: Color,
        level: Level, ident: UUID, price: Decimal, moment: datetime, day: date,
        pair: tuple[int, str], names: set[str], blob: bytes, maybe: int | None,
        mode: Literal["fast", "slow"], by_color: dict[str, Color], anything: Any,
    ) -> None:  # fmt: skip
        arguments = locals().copy()
        seen.append({name: arguments[name] for name in GIVEN})

    @app.job
    def in_thread(*, customer: Customer, order: Order, moment: datetime, names: set[str]) -> None:
        seen.append({"customer": customer, "order": order, "moment": moment, "names": names})

    some = {name: GIVEN[name] for name in ("customer", "order", "moment", "names")}
    async with working(app):
        await app.aresult((await on_loop.aenqueue(**GIVEN)).id, timeout=10)
        await app.aresult(in_thread.enqueue(**some).id, timeout=10)
        await app.aresult(app.enqueue("on_loop", GIVEN).id, timeout=10)
    loop, thread, named = seen
    for found in (loop, named):
        check(found)
    assert thread == some
    assert type(thread["customer"]) is Customer


async def test_defaults_are_filled_in_where_the_run_runs(app: Windlass, url: str) -> None:
    @app.job
    async def greet(name: str, times: int = 1) -> str:
        return name * times

    run = await greet.aenqueue("Ada")
    async with opened(url) as deployed:

        @deployed.job(name="greet")
        async def greet_more(name: str, times: int = 2) -> str:
            return name * times

        async with working(deployed):
            assert await app.aresult(run.id, timeout=10) == "AdaAda"


async def test_input_that_no_longer_fits_fails_the_run(app: Windlass, url: str) -> None:
    @app.job
    async def greet(name: str) -> str:
        return name

    run = await greet.using(max_attempts=1).aenqueue("Ada")
    async with opened(url) as deployed:

        @deployed.job(name="greet")
        async def greet_more(name: int) -> int:
            return name

        async with working(deployed):
            await run.await_end(timeout=10)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.type == "windlass.errors.BadArguments"
    assert run.error.message == "Job 'greet' got a wrong name: expected `int`, got `str`."


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"point": {"x": "one"}}, "got a wrong point.x: expected `int`, got `str`"),
    ({"point": {}}, "got a wrong point: object missing required field `x`"),
    ({"color": "green"}, "got a wrong color: invalid enum value 'green'"),
    ({"ident": "no-uuid"}, "got a wrong ident: invalid UUID"),
    ({"moment": "yesterday"}, "got a wrong moment: invalid RFC3339 encoded datetime"),
    ({"customer": {"name": "Ada"}}, "got a wrong customer: since: Field required"),
    ({"mode": "medium"}, "got a wrong mode: invalid enum value 'medium'"),
    ({"nonsense": 1}, "has no argument 'nonsense'"),
]


async def test_values_that_do_not_fit_are_refused_at_enqueue(
    app: Windlass, subtests: pytest.Subtests
) -> None:
    @app.job
    async def picky(
        point: Point | None = None, color: Color | None = None, ident: UUID | None = None,
        moment: datetime | None = None, customer: Customer | None = None,
        mode: Literal["fast", "slow"] = "fast",
    ) -> None: ...  # fmt: skip

    loose: Any = picky
    for given, why in WRONG:
        with subtests.test(str(given)):
            with pytest.raises(BadArguments) as sync:
                loose.enqueue(**given)
            with pytest.raises(BadArguments) as twin:
                await loose.aenqueue(**given)
            with pytest.raises(BadArguments) as named:
                app.enqueue("picky", given)
            assert str(sync.value) == str(twin.value) == str(named.value)
            assert why in str(sync.value)
            assert sync.value.parameter == next(iter(given))
    assert app.list() == []


async def test_results_are_told_as_json(app: Windlass) -> None:
    @app.job
    async def everything() -> dict[str, Any]:
        return {name: value for name, value in GIVEN.items() if name != "names"}

    run = await everything.aenqueue()
    async with working(app):
        result = await app.aresult(run.id, timeout=10)
    assert result == {
        "point": {"x": 1, "y": 2.5},
        "address": {"city": "Bonn", "zip": 53111},
        "order": {"id": str(IDENT), "total": "12.50", "points": [{"x": 3, "y": 0.5}]},
        "customer": {"name": "Ada", "since": MOMENT.isoformat(), "tags": ["vip"]},
        "color": "blue",
        "level": 2,
        "ident": str(IDENT),
        "price": "0.10",
        "moment": MOMENT.isoformat(),
        "day": "2030-05-17",
        "pair": [1, "two"],
        "blob": "AP8=",
        "maybe": None,
        "mode": "fast",
        "by_color": {"x": "red"},
        "anything": {"deep": [1, {"er": None}]},
    }
    assert (await app.aget(run.id)).result == result


TEXTS = [
    "",
    "\U0001f300 ünïcödé \u2028",
    "'; drop table runs; --",
    "back\\slash \\u0000",
    "\x7f\x01",
]


async def test_text_and_numbers_survive_as_they_are(app: Windlass) -> None:
    @app.job
    async def echo(value: Any) -> Any:
        return value

    values: list[Any] = [
        *TEXTS, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, 1e308, -0.0, 5e-324, True, None,
        [], {}, [[]], {"": ""}, {"ключ": 1}, "9" * 100, datetime(1, 1, 1, tzinfo=UTC).isoformat(),
    ]  # fmt: skip
    runs = app.enqueue_many(echo.request(value) for value in values)
    async with working(app):
        for run, value in zip(runs, values, strict=True):
            result = await app.aresult(run.id, timeout=10)
            assert result == value
            assert type(result) is type(value)
            assert (await app.aget(run.id)).input == {"value": value}
