"""Artifacts in a bucket: the same promises as in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fixtures.apps import PATIENCE, QUICK, working
from tests.fixtures.s3 import bucket, s3_server
from windlass import (
    ArtifactDamaged,
    ArtifactTooLarge,
    BadOption,
    Context,
    PlaceUnavailable,
    Windlass,
)
from windlass.artifacts.s3 import S3Place

__all__ = ["bucket", "s3_server"]

BIG = bytes(range(256)) * 80_000  # more than two parts of an upload


@pytest.fixture
def app(tmp_path: Path, bucket: str) -> Iterator[Windlass]:
    made = Windlass(f"sqlite:///{tmp_path}/windlass.db", artifacts=bucket, **QUICK)  # type: ignore[arg-type]
    made.migrate()
    yield made
    made.close()


async def test_a_handler_puts_reads_and_deletes(app: Windlass) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        kept = await ctx.artifacts.put("big.bin", BIG)
        assert await ctx.artifacts.get(kept) == BIG
        async with ctx.artifacts.open(kept, offset=9_000_001, length=5_000_000) as reader:
            assert await reader.read() == BIG[9_000_001:14_000_001]
        assert await ctx.artifacts.get(await ctx.artifacts.put("empty", b"")) == b""
        assert await ctx.artifacts.delete("empty")
        await ctx.artifacts.put("big.bin", b"small")

    async with working(app):
        run = await work.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
    assert app.artifacts.get("big.bin", run=run.id) == b"small"
    assert len(list(app.ground.shelf.place.kept("default"))) == 1
    assert await app.artifacts.aclear(run.id) == 1
    assert list(app.ground.shelf.place.kept("default")) == []
    await app.aclose()


def _half() -> Iterator[bytes]:
    yield BIG
    raise ZeroDivisionError


def test_what_cannot_be_kept_leaves_nothing(tmp_path: Path, bucket: str) -> None:
    url = f"sqlite:///{tmp_path}/windlass.db"
    app = Windlass(url, artifacts=bucket, artifact_limit=len(BIG))
    app.migrate()
    with pytest.raises(ZeroDivisionError):
        app.artifacts.put("a", _half())
    with pytest.raises(ArtifactTooLarge):
        app.artifacts.put("a", [BIG, b"x"])
    assert list(app.ground.shelf.place.kept("default")) == []
    app.close()


def test_lost_and_left_over_objects(app: Windlass) -> None:
    kept, lost = app.artifacts.put("kept", b"kept"), app.artifacts.put("lost", b"lost")
    place = app.ground.shelf.place
    place.delete(lost.location)
    with pytest.raises(ArtifactDamaged, match="missing"):
        app.artifacts.get(lost)
    place.write(f"default/-/{app.sources.new_id()}", iter([b"orphan"]))

    assert app.artifacts.sweep() == 0  # a put may be under way
    flow = app.artifacts._verbs._of(None).sweep(app.sources.now() + timedelta(minutes=1))
    assert app.artifacts._verbs.perform(flow) == 1
    assert app.artifacts.get(kept) == b"kept"


def test_a_bucket_that_is_not_there(app: Windlass, bucket: str) -> None:
    other = Windlass(app.settings.url, artifacts=bucket.replace("s3://kept", "s3://missing"))
    with pytest.raises((PlaceUnavailable, FileNotFoundError)) as raised:
        other.artifacts.put("a", b"a")
    assert isinstance(raised.value, PlaceUnavailable)
    other.close()


@pytest.mark.parametrize("url", ["s3://", "s3:///x", "s3://b?password=x"])
def test_urls_are_checked(url: str) -> None:
    with pytest.raises(BadOption, match="artifacts"):
        S3Place.at(url)
