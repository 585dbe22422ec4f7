"""The loop's default executor is the handlers' to use, and to ruin: we do without it."""

from __future__ import annotations

import ast
import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

import windlass
from tests.fixtures.apps import PATIENCE, opened, working
from windlass import Context, Windlass
from windlass.store.postgres.addresses import with_addresses

SOURCE = Path(windlass.__file__).parent


def _named(url: str) -> str:
    """By a name that must be looked up."""
    return url.replace("@127.0.0.1:", "@localhost:")


def _cut_off(url: str) -> None:
    """Let every connection be made anew."""
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )


async def _work_on(url: str) -> None:
    async with opened(_named(url)) as app:
        ticked = asyncio.Event()
        _define(app, ticked)
        async with working(app) as worker, asyncio.timeout(PATIENCE):
            await worker.started.wait()
            run = await app.aenqueue("spoil")
            assert await app.aresult(run.id, timeout=PATIENCE) is True
            _cut_off(url)
            plain = await app.aenqueue("in_thread")
            assert await app.aresult(plain.id, timeout=PATIENCE) == "done"
            soon = app.sources.now() + timedelta(seconds=0.5)
            await app.schedules.aput("tick", key="t", once=soon, catch_up="latest")
            await ticked.wait()
            assert len(await app.alist()) == 3
            await worker.drained()


def _define(app: Windlass, ticked: asyncio.Event) -> None:
    @app.job
    async def spoil() -> bool:
        loop = asyncio.get_running_loop()
        await loop.shutdown_default_executor()
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(int)
        return True

    @app.job
    def in_thread() -> str:
        return "done"

    @app.job
    async def tick(ctx: Context) -> None:
        await ctx.progress(0.5)
        ticked.set()


def test_a_handler_may_shut_the_executor_down(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with asyncio.Runner() as runner:  # whose loop is of no use to other tests afterwards
        runner.run(_work_on(url))
    failed = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert [record.getMessage() for record in failed] == []


def test_nothing_of_ours_uses_it() -> None:
    """Neither `to_thread`, nor `run_in_executor` without an executor."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.attr
                none = node.args and isinstance(node.args[0], ast.Constant)
                if name == "to_thread" or (name == "run_in_executor" and none):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert found == []


# -- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "conninfo",
    [
        "host=127.0.0.1 port=5",
        "host=/tmp dbname=d",
        "host=::1",
        "dbname=d",
        "service=shop",
        "host=example.invalid hostaddr=127.0.0.1",
    ],
)
async def test_what_needs_no_look_up_is_left_alone(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    assert await with_addresses(conninfo) == conninfo


async def test_every_host_has_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGHOSTADDR", raising=False)
    found = psycopg.conninfo.conninfo_to_dict(
        await with_addresses("host=localhost,10.0.0.1,/tmp,example.invalid port=5,6,7,8 dbname=d")
    )
    hosts, addresses, ports = (str(found[n]).split(",") for n in ("host", "hostaddr", "port"))
    assert hosts[-2:] == ["10.0.0.1", "/tmp"]
    assert addresses[-2:] == ["10.0.0.1", ""]
    assert ports[-2:] == ["6", "7"]
    assert set(hosts[:-2]) == {"localhost"}
    assert set(addresses[:-2]) <= {"127.0.0.1", "::1"}
    assert set(ports[:-2]) == {"5"}
    assert found["dbname"] == "d"


async def test_a_name_that_nobody_knows_is_an_error_of_the_driver() -> None:
    with pytest.raises(psycopg.OperationalError, match=r"resolve host 'example\.invalid'"):
        await with_addresses("postgresql://example.invalid/d")
