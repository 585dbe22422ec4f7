"""A test session opens no store but those for tests, in its process and in those that it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.apps import STORES
from tests.fixtures.inner_pytest import run_pytest
from windlass import Windlass, guard

SHOP = """
from windlass import Windlass

app = Windlass()        # on the store in use, which WINDLASS_URL names


@app.job
def send(n: int) -> int:
    return n


async def work():
    await app.worker().run()


def work_in_thread():
    with app.running_in_thread():
        raise AssertionError("a worker runs")


def begin():
    with app.transaction():
        raise AssertionError("a transaction was begun")


async def abegin():
    async with app.transaction():
        raise AssertionError("a transaction was begun")


def join():
    import psycopg
    with psycopg.connect(app.settings.url) as connection:
        send.using(connection=connection).enqueue(1)
"""
TESTS = """
import asyncio
import os
import subprocess
import sys
import pytest
import shop
from windlass import RunNotFound, UsageError, Windlass, testing

app, send = shop.app, shop.send
ACTS = {
    "enqueue": lambda: send.enqueue(1),
    "aenqueue": lambda: asyncio.run(send.aenqueue(1)),
    "enqueue_many": lambda: app.enqueue_many([send.request(1)]),
    "by name": lambda: app.enqueue("send", {"n": 1}),
    "list": lambda: app.list(),
    "alist": lambda: asyncio.run(app.alist()),
    "cancel": lambda: app.cancel("0197c0de-0000-7000-8000-000000000000"),
    "schedules": lambda: app.schedules.list(),
    "migrate": lambda: app.migrate(),
    "worker": lambda: asyncio.run(shop.work()),
    "worker in a thread": shop.work_in_thread,
    "transaction": shop.begin,
    "async transaction": lambda: asyncio.run(shop.abegin()),
    "enqueued": lambda: testing.enqueued(app),
    "assert_enqueued": lambda: testing.assert_enqueued(send),
    "refute_enqueued": lambda: testing.refute_enqueued(send),
}
if app.settings.url.startswith("postgresql:"):
    ACTS["connection"] = shop.join


@pytest.mark.parametrize("act", ACTS)
def test_real_store_is_refused(act):
    with pytest.raises(UsageError, match="is not a test store: use the fixture windlass_app"):
        ACTS[act]()


def windlass(*arguments, **environment):
    command = [sys.executable, "-m", "windlass", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_programs_of_a_test_refuse_it_too(windlass_app):
    refused = windlass("enqueue", "send", "--arg", "n=1", "--app", "shop:app")
    assert refused.returncode == 2, refused
    assert "is not a test store" in refused.stderr
    url = windlass_app.settings.url
    done = windlass("enqueue", "send", "--arg", "n=1", "--app", "shop:app", WINDLASS_URL=url)
    assert done.returncode == 0, done
    testing.assert_enqueued(send, count=1)


def test_store_in_the_folder_of_a_test_is_its_own(tmp_path):
    with Windlass(f"sqlite:///{tmp_path}/mine.db").store as store:
        assert store.run(store.operations.list_jobs("default")) == []


def test_somebody_means_it():
    with testing.real_store(app):
        send.enqueue(7)
        testing.assert_enqueued(send, args={"n": 7})
        assert windlass("runs", "--app", "shop:app").returncode == 0
    with pytest.raises(UsageError, match="is not a test store"):
        send.enqueue(8)
"""


@pytest.mark.parametrize("store", STORES)
def test_only_test_stores_are_opened(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = (
        f"sqlite:///{tmp_path}/production.db"
        if store == "sqlite"
        else request.getfixturevalue("pg_database")
    )
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nwindlass_app = shop:app\n")
    passed = 19 if store == "sqlite" else 20
    run_pytest(tmp_path, "-pno:asyncio", passed=passed, WINDLASS_URL=url)
    app = Windlass(url)
    assert [run.input for run in app.list()] == [{"n": 7}]
    app.close()


def test_project_may_take_it_back(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    test = "import shop\n\ndef test_it():\n    shop.send.enqueue(1)\n"
    (tmp_path / "test_shop.py").write_text(test)
    refused = run_pytest(tmp_path, "-pno:asyncio")
    assert refused.returncode == 1
    assert not (tmp_path / "windlass.db").exists()
    (tmp_path / "pytest.ini").write_text("[pytest]\nwindlass_real_stores = true\n")
    run_pytest(tmp_path, "-pno:asyncio", passed=1)
    assert (tmp_path / "windlass.db").exists()


def test_session_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "only\nsqlite:////a/b.db"):
        if before is None:
            monkeypatch.delenv(guard.VARIABLE)
        else:
            monkeypatch.setenv(guard.VARIABLE, before)
        kept = guard.begin(every_store=False)
        with guard.allowing("sqlite:////x.db"), guard.allowing("sqlite:////x.db"):
            assert guard.is_allowed("sqlite:////x.db")
            guard.check("sqlite:////x.db")
        assert not guard.is_allowed("sqlite:////x.db")
        guard.end(kept)
        assert (guard.in_tests(), guard.is_allowed("sqlite:////a/b.db")) == (
            (False, False) if before is None else (True, True)
        )


def test_outside_of_a_session_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(guard.VARIABLE)
    with guard.allowing("sqlite:////x.db"):
        guard.check("sqlite:////y.db")
    guard.check("sqlite:////x.db")
