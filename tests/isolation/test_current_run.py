"""The run whose handler runs here: what it enqueues and what it logs knows it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from tests.fixtures.apps import working
from tests.isolation.conftest import Load
from windlass import logs

JOBS = """
import logging


def helper():
    logging.getLogger("shop.stock").warning("low")


@app.job
def child(): ...

@app.job(max_attempts=1)
def in_thread():
    helper()
    child.enqueue()
    app.enqueue_many([child.request() for _ in range(2)])
    child.using(tags=["t"]).enqueue()

@app.job(max_attempts=1)
async def on_loop():
    helper()
    await child.aenqueue()
    await app.aenqueue_many([child.request() for _ in range(2)])
    await asyncio.create_task(child.using(tags=["t"]).aenqueue())

@app.job(max_attempts=1, executor="process")
def in_child():
    helper()
    child.enqueue()
    app.enqueue_many([child.request() for _ in range(2)])
    child.using(tags=["t"]).enqueue()
"""
NAMES = ["in_thread", "on_loop", "in_child"]


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged, as JSON."""
    root, stream = logging.getLogger(), io.StringIO()
    before, level = list(root.handlers), root.level
    handler = logs.configure("json", stream=stream)
    yield stream
    handler.close()
    root.handlers[:], root.level = before, level
    root.setLevel(level)


@pytest.mark.parametrize("job", NAMES)
async def test_what_it_enqueues_knows_it(load: Load, job: str) -> None:
    jobs = load(JOBS)
    async with working(jobs.app):
        run = await getattr(jobs, job).using(trace="t-1").aenqueue()
        await jobs.app.aresult(run.id, timeout="20s")

    made = await jobs.app.alist(job="child")
    assert [(one.enqueued_by, one.trace) for one in made] == [(run.id, "t-1")] * 4
    outside = await jobs.child.aenqueue()
    assert (outside.enqueued_by, outside.trace) == (None, outside.id.replace("-", ""))


@pytest.mark.parametrize("job", NAMES)
async def test_what_its_modules_log_names_it(load: Load, written: io.StringIO, job: str) -> None:
    jobs = load(JOBS)
    async with working(jobs.app):
        run = await getattr(jobs, job).aenqueue()
        await jobs.app.aresult(run.id, timeout="20s")
    for handler in logging.getLogger().handlers:
        handler.flush()

    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    (low,) = [line for line in lines if line["message"] == "low"]
    assert (low["run"], low["job"], low["attempt"], low["trace"]) == (run.id, job, 1, run.trace)


def test_a_format_of_ones_own_may_name_it_everywhere() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(logs.RunFields(missing="-"))
    handler.setFormatter(logging.Formatter("%(run)s %(job)s %(attempt)s %(trace)s %(message)s"))
    handler.handle(logging.makeLogRecord({"msg": "hello"}))
    assert stream.getvalue() == "- - - - hello\n"
