"""What a failing disk does to a store in a SQLite file: no acknowledged run is ever lost."""

from __future__ import annotations

import asyncio
import errno
import random  # noqa: TID251 - seeded
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.faults.mounts import FORMS, MOUNTED, ROOT, mounted
from tests.fixtures.callers import make_app
from tests.fixtures.disk import Disk, Op, files_after_a_cut
from windlass import Run, StoreError, StoreFull, Windlass
from windlass.store.sqlite import ballast

MIB = 1024 * 1024


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk() as made:
        yield made


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def sound(path: Path, runs: list[str]) -> None:
    """The file is in order, and these runs are in it. Looked at by the real file system."""
    connection = apsw.Connection(str(path), vfs="unix")
    assert connection.pragma("integrity_check") == "ok"
    known = {row[0].hex() for row in connection.execute("select id from runs")}
    connection.close()
    assert {run.replace("-", "") for run in runs} <= known


# -- flushes that fail ------------------------------------------------------------------------


@pytest.mark.parametrize("face", ["sync", "async"])
def test_failed_flush_acknowledges_nothing(disk: Disk, tmp_path: Path, face: str) -> None:
    for kth in range(1, 21):
        path = tmp_path / f"{kth}.db"
        app = make_app(url_of(path))
        acked, errors = asyncio.run(_press(app, disk, kth, face))
        app.close()
        assert errors, "a call was told of it"
        assert all("disk failed" in str(error) for error in errors), errors
        sound(path, acked)
        # The same file, opened again, goes on where it was.
        again = make_app(url_of(path))
        acked.append(again.jobs["send"].enqueue(n=99).id)
        again.close()
        sound(path, acked)


async def _press(
    app: Windlass, disk: Disk, kth: int, face: str
) -> tuple[list[str], list[StoreError]]:
    """Enqueue, and checkpoint now and then, on a disk whose k-th flush fails, and the next."""
    acked: list[str] = []
    errors: list[StoreError] = []
    first = disk.syncs
    disk.fail_sync = lambda n: n - first in (kth, kth + 1)
    for n in range(25):
        try:
            job = app.jobs["send"]
            run = job.enqueue(n=n) if face == "sync" else await job.aenqueue(n=n)
            acked.append(run.id)
            if n % 8 == 7:
                _checkpoint(Path(app.store.place.removeprefix("sqlite:///")))
        except apsw.IOError:
            continue  # of the checkpoint: nothing was acknowledged by it
        except StoreError as error:
            errors.append(error)
    disk.fail_sync = lambda _: False
    await app.aclose()
    return acked, errors


def _checkpoint(path: Path) -> None:
    connection = apsw.Connection(str(path))
    try:
        connection.execute("pragma wal_checkpoint(restart)").fetchall()
    finally:
        connection.close()


# -- a full disk ------------------------------------------------------------------------------


@pytest.fixture
def full(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    """An application on a disk with room for a few dozen runs."""

    def reserve(descriptor: int, size: int) -> None:
        if disk.capacity is not None and disk.used(tmp_path) + size > disk.capacity:
            raise OSError(errno.ENOSPC, "no room")
        real(descriptor, size)

    real = ballast.reserve
    monkeypatch.setattr(ballast, "reserve", reserve)
    app = make_app(url_of(tmp_path / "w.db"))
    app.jobs["send"].enqueue(n=0)
    disk.capacity = disk.used(tmp_path) + MIB
    yield app
    app.close()


def fill(app: Windlass) -> list[str]:
    """Enqueue until there is no more room."""
    made: list[str] = []
    enqueue = app.jobs["send"].enqueue
    with pytest.raises(StoreFull, match="no room left") as caught:
        made.extend(enqueue(n=n).id for n in range(10_000))
    assert caught.value.code == "store_full"
    assert len(made) > 5
    return made


def test_full_disk_refuses_new_work_and_nothing_else(
    full: Windlass, disk: Disk, tmp_path: Path
) -> None:
    made = fill(full)
    reserved = tmp_path / "w.db-ballast"
    assert reserved.stat().st_size == MIB

    assert len(full.list(limit=1000)) == len(made) + 1  # reads work
    assert full.get(made[0]).status == "queued"
    for run in made[:5]:
        assert full.cancel(run).status == "canceled"  # with the room that the ballast had
    assert not reserved.exists()
    # That room is not for new work, though there is enough of it.
    with pytest.raises(StoreFull):
        full.jobs["send"].enqueue(n=-1)
    with pytest.raises(StoreFull), full.transaction() as tx:
        full.jobs["send"].using(connection=tx).enqueue(n=-1)
    sound(tmp_path / "w.db", made)

    assert disk.capacity is not None
    disk.capacity += 2 * MIB  # somebody makes room: nothing needs to be restarted
    late = full.jobs["send"].enqueue(n=1)
    assert reserved.stat().st_size == MIB
    sound(tmp_path / "w.db", [*made, late.id])


async def test_full_disk_lets_a_worker_finish(full: Windlass, tmp_path: Path) -> None:
    made = fill(full)
    worker = full.worker()
    task = asyncio.create_task(worker.run())
    assert await full.aresult(made[0], timeout=15) == 0
    with pytest.raises(StoreFull):
        await full.jobs["send"].aenqueue(n=-1)
    worker.stop()
    await task
    await full.aclose()
    sound(tmp_path / "w.db", made)


def test_without_ballast_a_full_disk_is_told_all_the_same(disk: Disk, tmp_path: Path) -> None:
    app = Windlass(url_of(tmp_path / "w.db"), ballast=0)

    @app.job
    def send(n: int) -> None: ...

    send.enqueue(n=0)
    disk.capacity = disk.used(tmp_path) + MIB
    made: list[Run] = []
    with pytest.raises(StoreFull):
        made.extend(send.enqueue(n=n) for n in range(10_000))
    canceled: list[Run] = []
    with pytest.raises(StoreFull):  # a cancel is small: a few may still find room
        canceled.extend(run.cancel() for run in made)
    run = made[len(canceled)]
    assert run.refresh().status == "queued"
    disk.capacity = None
    assert run.cancel().status == "canceled"
    assert not list(tmp_path.glob("*-ballast"))
    app.close()


@pytest.mark.parametrize("form", FORMS)
def test_small_disk_is_lived_through(tmp_path: Path, form: str) -> None:
    """The same on 6 MiB, and on a real file system where this process may mount one."""
    program = [sys.executable, "-m", "tests.faults.programs.full", str(tmp_path)]
    if form == MOUNTED:
        seen = mounted(f"mount -t tmpfs -o size=6m none '{tmp_path}'", shlex.join(program))
    else:
        program.append(str(6 * MIB))
        done = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=50)
        seen = done.stdout
    assert seen == "fine"


# -- a power cut --------------------------------------------------------------------------------


def test_power_cut_loses_no_acknowledged_run(disk: Disk, tmp_path: Path) -> None:
    _cut_power(disk, tmp_path, runs=200, cuts=60)


@pytest.mark.long
def test_power_cut_loses_no_acknowledged_run_long(disk: Disk, tmp_path: Path) -> None:
    _cut_power(disk, tmp_path, runs=1000, cuts=1000)


def _cut_power(disk: Disk, tmp_path: Path, *, runs: int, cuts: int) -> None:
    path = tmp_path / "live" / "w.db"
    path.parent.mkdir()
    app = make_app(url_of(path))
    app.jobs["send"].enqueue(n=-1)
    _checkpoint(path)
    before = {name: (path.parent / name).read_bytes() for name in ("w.db", "w.db-wal")}
    ops: list[Op] = []
    disk.ops = ops
    for n in range(runs):
        run = app.jobs["send"].enqueue(n=n)
        disk.record(Op("ack", run.id))
        if n % 30 == 29:
            _checkpoint(path)
    app.close()

    dice = random.Random(1)
    lost_something = 0
    for seed in range(cuts):
        cut = dice.randrange(len(ops))
        folder = tmp_path / f"cut-{seed}"
        folder.mkdir()
        for name, data in files_after_a_cut(before, ops[:cut], seed).items():
            (folder / name).write_bytes(data)
        lost_something += any(op.kind != "sync" for op in ops[max(0, cut - 1) : cut])
        sound(folder / "w.db", [op.name for op in ops[:cut] if op.kind == "ack"])
    assert lost_something  # cuts in the midst of things, not only between them


def test_a_run_that_was_never_acknowledged_may_be_gone(disk: Disk, tmp_path: Path) -> None:
    """The record forgets what a disk would: without a flush nothing is sure to be there."""
    ops = [Op("write", "f", 0, b"a" * 1024), Op("sync", "f"), Op("write", "f", 0, b"b" * 4096)]
    found = {files_after_a_cut({}, ops, seed)["f"][:512] for seed in range(20)}
    assert found == {b"a" * 512, b"b" * 512}
    assert files_after_a_cut({}, ops[:2], 1)["f"] == b"a" * 1024
