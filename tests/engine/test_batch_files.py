"""Batches over the records of an artifact: cut into shards, read from a byte on, and counted."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fixtures.apps import opened, working
from windlass import BadOption, Context, Status, SyncContext, Windlass, units


@pytest.fixture
async def app(url: str, tmp_path: Any) -> Any:
    async with opened(url, artifacts=str(tmp_path / "artifacts")) as found:
        yield found


@dataclass
class Order:
    number: int
    note: str


async def test_lines_of_json_are_cut_into_shards(app: Windlass) -> None:
    seen: Counter[int] = Counter()
    shards: set[str] = set()

    @app.batch(shard_size=100, parallel=3)
    async def load(ctx: Context, unit: dict[str, Any]) -> None:
        shards.add(ctx.run_id)
        seen[unit["n"]] += 1
        if unit["n"] % 100 == 7:
            raise ValueError("seven")

    text = "".join(
        f'{{"n": {n}, "text": "ü{"x" * (n % 50)}"}}\n' + "\r\n" * (n % 9 == 0) for n in range(1000)
    )
    artifact = await app.artifacts.aput("orders.ndjson", text.encode().rstrip())
    run = await load.aenqueue(units=artifact)
    async with working(app):
        ended = await run.await_end(timeout=30)
        assert ended.result == {"run": run.id, "total": 1000, "succeeded": 990, "failed": 10}
        again = await run.aretry_failed()
        assert (await again.await_end(timeout=30)).result["failed"] == 10  # type: ignore[index]
    assert len(shards) >= 10
    assert [each.n for each in await run.afailed_units()] == list(range(7, 1000, 100))
    assert seen == Counter({n: 1 + (n % 100 == 7) for n in range(1000)})


async def test_rows_of_csv_become_what_the_function_wants(app: Windlass) -> None:
    seen: list[Order] = []
    mended = False

    @app.batch(shard_size=7)
    def load(ctx: SyncContext, unit: Order) -> None:
        if unit.number == 11 and not mended:
            raise ValueError("eleven")
        seen.append(unit)

    rows = ["number,note", *(f'{n},"line 1\nline ""{n}"", or so"' for n in range(30))]
    rows[20] = "not a number,x"
    rows[21] = "1,2,3"
    data = ("\ufeff" + "\r\n".join(rows)).encode()
    artifact = await app.artifacts.aput("orders", data)
    with pytest.raises(BadOption, match="may be of any kind"):
        await load.aenqueue(units=artifact)
    run = await load.aenqueue(units=units.csv_rows(artifact))
    async with working(app):
        ended = await run.await_end(timeout=30)
        failed = await run.afailed_units()
        mended = True
        again = await run.aretry_failed()
        second = await again.await_end(timeout=30)

    assert ended.result == {"run": run.id, "total": 30, "succeeded": 27, "failed": 3}
    assert [each.n for each in failed] == [11, 19, 20]
    assert "3 columns, and the header 2" in failed[2].error.message
    assert second.result["succeeded"] == 1  # type: ignore[index]
    assert sorted(order.number for order in seen) == [n for n in range(30) if n not in (19, 20)]
    assert min(seen, key=lambda order: order.number) == Order(0, 'line 1\nline "0", or so')


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_shard_of_a_file_goes_on_at_its_byte(app: Windlass, is_async: bool) -> None:
    seen: Counter[str] = Counter()

    def walk(unit: str) -> None:
        seen[unit] += 1

    async def awalk(unit: str) -> None:
        seen[unit] += 1

    job = app.batch(shard_size=1300, split_after=None, seat_time="0s")(awalk if is_async else walk)
    names = "".join(f"name {n}\n" for n in range(2600))
    run = await job.aenqueue(units=units.lines(await app.artifacts.aput("names", names.encode())))
    async with working(app):
        ended = await run.await_end(timeout=30)
    assert ended.result["succeeded"] == 2600  # type: ignore[index]
    assert [shard.attempt for shard in await ended.achildren()] == [3, 3]  # 500 units each
    assert seen == Counter({f"name {n}": 1 for n in range(2600)})


async def test_half_of_a_shard_of_a_file_begins_where_it_should(app: Windlass) -> None:
    seen: Counter[str] = Counter()

    @app.batch(shard_size=700, parallel=2, split_after=0.01)
    def walk(unit: str) -> None:
        seen[unit] += 1
        time.sleep(0.003)

    names = "".join(f"name {n}\n" for n in range(700))
    run = await walk.aenqueue(units=units.lines(await app.artifacts.aput("names", names.encode())))
    async with working(app):
        ended = await run.await_end(timeout=30)
    counts = await ended.abatch_counts()
    assert counts.shards > 1
    assert (counts.total, counts.succeeded) == (700, 700)
    assert seen == Counter({f"name {n}": 1 for n in range(700)})


async def test_an_empty_file_is_a_batch_of_nothing(app: Windlass) -> None:
    @app.batch()
    async def load(unit: str) -> None: ...

    made = [
        await load.aenqueue(units=units.lines(await app.artifacts.aput("a.txt", b"\n \n"))),
        await load.aenqueue(units=units.csv_rows(await app.artifacts.aput("a.csv", b"name\n"))),
    ]
    async with working(app):
        for run in made:
            assert (await run.await_end(timeout=30)).result["total"] == 0  # type: ignore[index]


async def test_a_batch_whose_artifact_is_gone_fails_and_says_so(app: Windlass) -> None:
    @app.batch(max_attempts=1)
    async def load(unit: str) -> None: ...

    artifact = await app.artifacts.aput("a.csv", b"name\nx\n")
    run = await load.aenqueue(units=artifact)
    await app.artifacts.adelete(artifact)
    async with working(app):
        ended = await run.await_end(timeout=30)
    assert ended.status is Status.FAILED
    assert ended.error is not None
    assert "ArtifactNotFound" in ended.error.type


async def test_rows_by_key_go_on_after_the_last_one(app: Windlass) -> None:
    table = [(region, n) for region in "ab" for n in range(60)]
    asked: list[Any] = []
    seen: Counter[Any] = Counter()
    failing = True

    def fetch(after: tuple[str, int] | None, size: int, upto: int) -> list[tuple[str, int]]:
        asked.append(after)
        if after == ("a", 49) and failing:
            raise OSError("the table is locked")
        rows = [row for row in table if after is None or row > after]
        return [row for row in rows if row[1] < upto][:size]

    @app.batch(source=units.by_key(fetch, key=lambda row: row, size=25), max_attempts=1)
    async def export(unit: tuple[str, int]) -> None:
        seen[unit] += 1

    run = await export.aenqueue(upto=55)
    async with working(app):
        assert (await run.await_end(timeout=30)).status is Status.FAILED
        failing = False
        await run.aretry()
        ended = await run.await_end(timeout=30)
    assert ended.result["total"] == 110  # type: ignore[index]
    assert seen == Counter({row: 1 for row in table if row[1] < 55})
    assert asked[:3] == [None, ("a", 24), ("a", 49)]


async def test_pages_are_fetched_again_from_the_middle(app: Windlass) -> None:
    pages = {None: (range(3), "b"), "b": (range(3, 600), "c"), "c": (range(600, 602), None)}
    tokens: list[Any] = []
    seen: Counter[int] = Counter()

    async def fetch(token: str | None) -> tuple[range, str | None]:
        tokens.append(token)
        return pages[token]

    @app.batch(source=units.by_page(fetch), seat_time="0s")
    async def pull(unit: int) -> None:
        seen[unit] += 1
        if unit == 601:
            raise ValueError("the last one")

    run = await pull.aenqueue()
    async with working(app):
        ended = await run.await_end(timeout=30)
        again = await (await run.aretry_failed()).await_end(timeout=30)
    assert ended.result["total"] == 602  # type: ignore[index]
    assert again.result["total"] == 1  # type: ignore[index]
    assert tokens == [None, "b", "b", "c"]
    assert seen == Counter({n: 1 + (n == 601) for n in range(602)})


async def test_files_of_the_worker_are_sources(app: Windlass, tmp_path: Any) -> None:
    (tmp_path / "people.csv").write_text('name,age\n"Ann\nO.",3\n' + "Bob,4\n" * 700)
    (tmp_path / "people.ndjson").write_text("[1]\n\n[2]")
    seen: Counter[str] = Counter()

    @app.batch(source=units.read_csv, seat_time="0s")
    def greet(unit: dict[str, str]) -> None:
        seen[f"{unit['name']} {unit['age']}"] += 1

    @app.batch(source=units.read_ndjson)
    async def load(unit: list[int]) -> None:
        seen[str(unit)] += 1

    made = [
        await greet.aenqueue(path=str(tmp_path / "people.csv")),
        await load.aenqueue(path=str(tmp_path / "people.ndjson")),
    ]
    async with working(app):
        for run in made:
            assert (await run.await_end(timeout=30)).status is Status.SUCCEEDED
    assert seen == {"Ann\nO. 3": 1, "Bob 4": 700, "[1]": 1, "[2]": 1}


def test_a_function_that_fetches_nothing_is_refused() -> None:
    with pytest.raises(BadOption, match="must take"):
        units.by_key(lambda after: [], key=lambda row: row)
