"""Artifacts: bytes that runs keep outside the database."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, QUICK, reap, working
from windlass import (
    Artifact,
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactTooLarge,
    BadOption,
    Context,
    LeaseLost,
    PlaceUnavailable,
    SyncContext,
    UsageError,
    Windlass,
)
from windlass.artifacts.flows import Artifacts as Flows
from windlass.testing import isolated

BIG = bytes(range(256)) * 10_000  # more than two chunks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
async def app(url: str, folder: Path) -> AsyncIterator[Windlass]:
    made = Windlass(url, artifacts=folder, **QUICK)  # type: ignore[arg-type]
    made.migrate()
    yield made
    await made.aclose()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_an_async_handler_puts_reads_and_deletes(app: Windlass, folder: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(BIG), 100_000):
            await asyncio.sleep(0)
            yield BIG[start : start + 100_000]

    @app.job
    async def work(ctx: Context) -> Artifact:
        kept = await ctx.artifacts.put("big.bin", pieces(), content_type="x/y")
        await ctx.artifacts.put("gone", b"gone")
        assert [each.name for each in await ctx.artifacts.list()] == ["big.bin", "gone"]
        assert await ctx.artifacts.delete("gone")
        assert not await ctx.artifacts.delete("gone")
        assert await ctx.artifacts.find("gone") is None
        assert await ctx.artifacts.get("big.bin") == await ctx.artifacts.get(kept) == BIG
        async with ctx.artifacts.open("big.bin") as reader:
            assert b"".join([chunk async for chunk in reader]) == BIG
        async with ctx.artifacts.open(kept, offset=300, length=1000) as reader:
            assert await reader.read(10) == BIG[300:310]
            assert await reader.read() == BIG[310:1300]
            assert await reader.read() == b""
        return kept

    async with working(app):
        run = await work.aenqueue()
        kept = await app.aresult(run.id, timeout=PATIENCE)
    pointer = (await run.arefresh()).result
    assert isinstance(pointer, Artifact)
    assert kept["sha256"] == hashlib.sha256(BIG).hexdigest()
    assert (pointer.size, pointer.content_type, pointer.run) == (len(BIG), "x/y", run.id)
    assert await run.aartifacts() == [pointer]
    assert len(files(folder)) == 1
    assert await app.artifacts.aget("big.bin", run=run.id) == BIG
    async with app.artifacts.aopen(pointer, offset=len(BIG) - 5) as reader:
        assert await reader.read() == BIG[-5:]


async def test_a_handler_in_a_thread_does_the_same(app: Windlass, tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(BIG)
    kinds: dict[str, Callable[[], Any]] = {
        "bytes": lambda: BIG,
        "view": lambda: memoryview(BIG),
        "path": lambda: source,
        "file": lambda: io.BytesIO(BIG),
        "pieces": lambda: (BIG[i : i + 99_999] for i in range(0, len(BIG), 99_999)),
    }

    @app.job
    def work(ctx: SyncContext) -> None:
        for name, make in kinds.items():
            kept = ctx.artifacts.put(name, make())
            assert ctx.artifacts.get(kept) == BIG
        with ctx.artifacts.open("file", offset=7) as reader:
            assert b"".join(reader) == BIG[7:]
        assert ctx.artifacts.get(ctx.artifacts.put("empty", b"")) == b""
        assert ctx.artifacts.delete("empty")

    async with working(app):
        run = await work.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
    assert [each.name for each in run.artifacts()] == sorted(kinds)
    with app.artifacts.open("view", run=run.id) as reader:
        assert reader.read(3) == BIG[:3]


async def test_a_name_that_is_put_again_is_replaced(app: Windlass, folder: Path) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        first = await ctx.artifacts.put("a", b"1")
        assert await ctx.artifacts.put("a", b"1") == first
        second = await ctx.artifacts.put("a", b"2")
        assert await ctx.artifacts.get("a") == await ctx.artifacts.get(second) == b"2"
        with pytest.raises(ArtifactNotFound):
            await ctx.artifacts.get(first)

    async with working(app):
        await app.aresult((await work.aenqueue()).id, timeout=PATIENCE)
    assert len(files(folder)) == 1


async def test_who_lost_the_lease_publishes_nothing(app: Windlass, url: str, folder: Path) -> None:
    started, lost, told = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job
    def work(ctx: SyncContext) -> None:
        if ctx.attempt > 1:
            return

        def pieces() -> Iterator[bytes]:
            yield b"before"
            loop.call_soon_threadsafe(started.set)
            lost.wait(PATIENCE)
            yield b"after"

        with pytest.raises(LeaseLost):
            ctx.artifacts.put("late", pieces())
        loop.call_soon_threadsafe(told.set)

    async with working(app, cancel_grace="60s"):
        run = await work.aenqueue()
        async with asyncio.timeout(PATIENCE):
            await started.wait()
        await reap(app, url, run)
        lost.set()
        async with asyncio.timeout(PATIENCE):
            await told.wait()
        await run.await_end(timeout=PATIENCE)
    assert await run.aartifacts() == []
    assert files(folder) == []


def test_what_a_program_puts_belongs_to_no_run(app: Windlass, folder: Path) -> None:
    kept = app.artifacts.put("units.txt", [b"a\n", b"b\n"])

    assert (kept.run, kept.size) == (None, 4)
    assert app.artifacts.get(kept) == b"a\nb\n"
    with app.artifacts.open(kept, offset=2, length=1) as reader:
        assert reader.read() == b"b"
    assert app.artifacts.delete(kept)
    assert not app.artifacts.delete(kept)
    assert files(folder) == []
    with pytest.raises(BadOption, match="say in which run"):
        app.artifacts.get("units.txt")


def test_damaged_bytes_are_not_returned(app: Windlass, folder: Path) -> None:
    kept = app.artifacts.put("a", b"right")
    (path,) = files(folder)
    path.write_bytes(b"wrong")
    with pytest.raises(ArtifactDamaged, match="checksum"):
        app.artifacts.get(kept)
    path.write_bytes(b"rig")
    with pytest.raises(ArtifactDamaged, match="2 bytes are missing"):
        app.artifacts.get(kept)
    path.unlink()
    with pytest.raises(ArtifactDamaged, match="bytes are missing"):
        app.artifacts.open(kept)


def _half() -> Iterator[bytes]:
    yield b"half"
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (_half, ZeroDivisionError),
        (lambda: [b"x" * 600, b"x" * 600], ArtifactTooLarge),
        (lambda: ["text"], BadOption),
        (lambda: "text", BadOption),
        (lambda: 7, BadOption),
    ],
)
def test_what_cannot_be_kept_leaves_nothing(
    url: str, folder: Path, data: Callable[[], Any], error: type[Exception]
) -> None:
    app = Windlass(url, artifacts=folder, artifact_limit=1000)
    app.migrate()
    with pytest.raises(error):
        app.artifacts.put("a", data())
    assert files(folder) == []
    app.close()


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\\b", ".hidden", "@x", "a\0", "x" * 201, 7])
def test_names_are_checked(app: Windlass, name: Any) -> None:
    with pytest.raises(BadOption, match="name"):
        app.artifacts.put(name, b"")


@pytest.mark.parametrize("location", ["../outside", "/etc/hostname", "default/../../outside"])
def test_a_forged_location_leads_nowhere(app: Windlass, folder: Path, location: str) -> None:
    (folder.parent / "outside").write_bytes(b"secret")
    forged = Artifact(
        id=app.sources.new_id(), name="a", content_type="x", size=6,
        sha256="0" * 64, location=location,
    )  # fmt: skip
    app.store.run(app.store.operations.put_artifact(forged))
    with pytest.raises(ArtifactDamaged, match="missing"):
        app.artifacts.open(forged)


def test_a_folder_that_cannot_be_used_is_named(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    app = Windlass(url, artifacts=tmp_path / "file")
    app.migrate()
    with pytest.raises(PlaceUnavailable, match="file cannot be used"):
        app.artifacts.put("a", b"")
    app.close()


def test_a_crash_between_bytes_and_row_is_swept(
    app: Windlass, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = app.artifacts.put("kept", b"kept")
    flow = Flows(app.store.operations, app.ground.shelf, "default", None)
    dying = flow.put("orphan", iter([b"orphan"]), None, None)
    next(dying).action()  # type: ignore[union-attr]
    dying.close()  # it dies before the row is written
    (folder / ".tmp" / "unfinished").write_bytes(b"")
    assert len(files(folder)) == 3

    assert app.artifacts.sweep() == 0  # a put may be under way
    long_ago = (app.sources.now() - timedelta(days=2)).timestamp()
    for path in files(folder):
        os.utime(path, (long_ago, long_ago))
    assert app.artifacts.sweep() == 2
    assert app.artifacts.get(kept) == b"kept"
    assert len(files(folder)) == 1
    with pytest.raises(BadOption, match="at least a minute"):
        app.artifacts.sweep(older_than="1s")


async def test_a_run_is_cleaned_of_its_artifacts(app: Windlass, folder: Path) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        for name in "abc":
            await ctx.artifacts.put(name, name.encode())

    async with working(app):
        one, other = await work.aenqueue(), await work.aenqueue()
        for run in (one, other):
            await app.aresult(run.id, timeout=PATIENCE)
    assert await app.artifacts.aclear(one.id) == 3
    assert await app.artifacts.aclear(one.id) == 0
    assert [each.name for each in other.artifacts()] == ["a", "b", "c"]
    assert len(files(folder)) == 3


def test_where_artifacts_are_kept_without_a_setting(url: str, tmp_path: Path) -> None:
    app = Windlass(url)
    app.migrate()
    if url.startswith("sqlite"):
        app.artifacts.put("a", b"a")
        assert len(files(tmp_path / "windlass.db-artifacts")) == 1
    else:
        with pytest.raises(UsageError, match="Say where artifacts are kept"):
            app.artifacts.put("a", b"a")
    app.close()


def test_tests_keep_their_artifacts_elsewhere(app: Windlass, folder: Path) -> None:
    with isolated(app):
        kept = app.artifacts.put("a", b"a")
        assert app.artifacts.get(kept) == b"a"
    assert files(folder) == []


def test_an_async_iterator_needs_async_code(app: Windlass) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b""

    with pytest.raises(BadOption, match="async"):
        app.artifacts.put("a", pieces())  # type: ignore[arg-type]
