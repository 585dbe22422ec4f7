"""`windlass workers`: who is alive, what each is doing, on both stores."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.kit import PATIENCE, command, fails, make_app, ok, ok_json, run
from tests.cli.test_demo import read_all
from windlass import Windlass
from windlass.domain.run import Blocked, Held, Want, WorkerInfo


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose workers the command looks at."""
    found = make_app(url)
    yield found
    found.close()


def hire(app: Windlass, name: str, *, lease: float = 30.0, takes: int = 0) -> None:
    """Register a worker, and let it claim."""
    info = WorkerInfo(
        id=name, host="box", pid=7, version="1.2", queues=("default", "mail"), jobs=("greet",),
        seats=10,
    )  # fmt: skip
    app.store.run(app.store.operations.register(info, lease))
    if takes:
        want = Want(limit=takes, jobs=("greet",))
        app.store.run(app.store.operations.cycle(name, 1, [], want))


def test_no_worker_at_all(url: str, app: Windlass) -> None:
    app.migrate()

    assert ok("workers", "--url", url).startswith("No worker is running: start one")
    assert ok_json("workers", "--url", url, "--json") == []
    assert app.workers() == []


def test_a_worker_whose_event_loop_is_blocked_says_by_whom(url: str, app: Windlass) -> None:
    blocker = app.enqueue("greet")
    hire(app, "box:7:aaaaaa", takes=1)
    held = Held("default", blocker.id, 1)
    blocked = Blocked(seconds=90.0, tenant="default", run=blocker.id)
    app.store.run(app.store.operations.renew("box:7:aaaaaa", 30, [held], 1, blocked))

    result = run("workers", "--url", url)

    assert result.stdout.splitlines()[1].split()[:2] == ["box:7:aaaaaa", "blocked"]
    assert f"box:7:aaaaaa: its event loop has been blocked by run {blocker.id} for 1 m 3" in (
        result.stderr
    )
    (shown,) = ok_json("workers", "--url", url, "--json")
    assert (shown["blocked_run"], shown["alive"]) == (blocker.id, True)


def test_into_a_pipe_goes_a_row_for_each_worker_and_each_run(url: str, app: Windlass) -> None:
    runs = [app.enqueue("greet") for _ in range(3)]
    hire(app, "box:7:aaaaaa", takes=3)
    hire(app, "box:8:bbbbbb", lease=0)

    result = run("workers", "--url", url, "--runs", "2")

    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    titles, alive, dead, _, run_titles, *rows = result.stdout.splitlines()
    assert titles.split() == [
        "WORKER", "STATE", "SEATS", "STARTED", "RENEWED", "LEASE", "VERSION", "QUEUES", "JOBS",
    ]  # fmt: skip
    assert alive.split()[:3] == ["box:7:aaaaaa", "alive", "3/10"]
    assert alive.split()[-3:] == ["1.2", "default,mail", "greet"]
    assert dead.split()[:3] == ["box:8:bbbbbb", "dead", "0/10"]
    assert run_titles.split() == ["RUN", "JOB", "QUEUE", "ATTEMPT", "STARTED", "WORKER"]
    assert {row.split()[0] for row in rows} < {found.id for found in runs}
    assert len(rows) == 2
    assert rows[0].split()[-1] == "box:7:aaaaaa"
    assert result.stderr == (
        "1 alive, 3 of 10 seats taken; 1 dead, to be reaped by the next worker that looks; "
        "1 runs more than are listed.\n"
    )


def test_json_has_everything(url: str, app: Windlass) -> None:
    (made,) = [app.enqueue("greet")]
    hire(app, "box:7:aaaaaa", takes=1)

    (worker,) = ok_json("workers", "--url", url, "--json")

    assert (worker["host"], worker["pid"], worker["version"]) == ("box", 7, "1.2")
    assert (worker["alive"], worker["busy"], worker["seats"]) == (True, 1, 10)
    assert 0 < worker["lease_left"] <= 30
    assert worker["queues"] == ["default", "mail"]
    assert worker["renewed_at"] == worker["started_at"] < worker["alive_until"]
    assert [found["id"] for found in worker["running"]] == [made.id]
    assert [found.id for found in app.workers()] == ["box:7:aaaaaa"]


async def test_the_async_twin(url: str, app: Windlass) -> None:
    hire(app, "box:7:aaaaaa")

    (worker,) = await app.aworkers()

    assert worker.alive
    await app.aclose()


def test_on_a_terminal_rows_fit_the_screen_and_states_are_coloured(url: str, app: Windlass) -> None:
    app.enqueue("greet")
    hire(app, "box:7:" + "a" * 20, takes=1)
    hire(app, "box:8:bbbbbb", lease=0)
    master, slave = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
    environ.pop("NO_COLOR", None)
    with subprocess.Popen(
        command("workers", "--url", url), stdin=slave, stdout=slave, stderr=slave, env=environ
    ) as process:
        os.close(slave)
        shown = read_all(master)
        assert process.wait(PATIENCE) == 0
    os.close(master)

    assert "\x1b[32malive\x1b[0m" in shown
    assert "\x1b[31mdead\x1b[0m" in shown
    assert "1 alive, 1 of 10 seats taken" in shown


def test_a_store_that_is_not_there_is_one_sentence(url: str) -> None:
    assert "There is no file" in fails(5, "workers", "--url", "sqlite:///nowhere.db")
