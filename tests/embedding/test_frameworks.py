"""The page on embedding, run: scripts, FastAPI under uvicorn, Django, Flask."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.embedding.servers import PATIENCE, run, serving
from tests.fixtures.pages import Examples
from windlass import Request, Windlass
from windlass.config import Settings

ANY_PORT = "0"
PAGE = "docs/embedding.md"


def until(true: Callable[[], bool]) -> None:
    """Wait for what another process does, with a limit."""
    end = monotonic() + PATIENCE
    while not true():
        assert monotonic() < end, "it never came to be"
        sleep(0.02)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        pytest.param(name, printed, marks=pytest.mark.examples(PAGE, name))
        for name, printed in (("embedded.py", "Hello, Ada\n"), ("threaded.py", "Hello, Grace\n"))
    ],
)
def test_small_programs_of_the_page(
    page: dict[str, str], tmp_path: Path, name: str, printed: str
) -> None:
    (tmp_path / name).write_text(page[name])
    assert run(tmp_path, "-W", "error", name) == printed


@pytest.mark.examples(PAGE, "main.py")
def test_fastapi_under_uvicorn_works_and_drains_on_sigterm(
    page: dict[str, str], tmp_path: Path, url: str
) -> None:
    (tmp_path / "main.py").write_text(page["main.py"])
    command = ("-m", "uvicorn", "main:api", "--port", ANY_PORT)
    with serving(tmp_path, *command, WINDLASS_URL=url) as server:
        quick = server.ask("/images/cat.png", post=True)["run"]
        until(lambda: server.ask(f"/runs/{quick}")["status"] == "succeeded")
        assert server.ask(f"/runs/{quick}")["result"] == "cat.webp"
        for unknown in ("0197c0de-0000-7000-8000-000000000000", "no-id-at-all"):
            assert server.status(f"/runs/{unknown}") == 404
        slow = server.ask("/images/dog.png?seconds=1", post=True)["run"]
        # A machine that is busy enough sees only its end.
        until(lambda: server.ask(f"/runs/{slow}")["status"] in ("running", "succeeded"))
        server.stop(signal.SIGTERM)
        assert "Application shutdown complete" in "".join(server.printed)
    app = Windlass(url)
    found = app.get(slow)
    assert (found.status, found.result, found.attempt) == ("succeeded", "dog.webp", 1)
    assert app.workers() == []
    app.close()


FAILING = """
import logging.config, os

if os.environ.get("CONFIG"):
    logging.config.dictConfig({{"version": 1, **eval(os.environ["CONFIG"])}})

{page}

@app.job(max_attempts=1)
async def break_down() -> None:
    raise ValueError("the part broke")


@api.post("/broken")
async def broken() -> dict[str, str]:
    return {{"run": (await break_down.aenqueue()).id}}
"""
TO_A_FILE = (
    "{'handlers': {'h': {'class': 'logging.FileHandler', 'filename': 'log'}},"
    " 'root': {'handlers': ['h']}, 'disable_existing_loggers': False}"
)


LEVELS = "What you see of failures"


@pytest.mark.examples(PAGE, LEVELS)
def test_levels_of_the_page_leave_the_failures(examples: Examples, tmp_path: Path) -> None:
    (tmp_path / "levels.py").write_text(
        f"{examples[LEVELS]}\n"
        "from windlass import Windlass\n"
        "app = Windlass()\n"
        "@app.job(max_attempts=1)\n"
        "def break_down(really):\n"
        "    if really:\n"
        "        raise ValueError('the part broke')\n"
        "with app.running_in_thread():\n"
        "    for really in (True, False):\n"
        "        break_down.enqueue(really).wait(timeout='20s')\n"
    )
    done = subprocess.run(
        [sys.executable, "levels.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    logged = [line for line in done.stderr.splitlines() if ":windlass" in line]
    assert [line.partition(":")[0] for line in logged] == ["ERROR"]


@pytest.mark.parametrize(
    ("config", "shown"), [("", True), (TO_A_FILE, False)], ids=["nothing", "a handler"]
)
def test_a_failure_is_shown_under_uvicorn_unless_the_program_logs_it(
    page: dict[str, str], tmp_path: Path, config: str, shown: bool
) -> None:
    (tmp_path / "main.py").write_text(FAILING.format(page=page["main.py"]))
    command = ("-m", "uvicorn", "main:api", "--port", ANY_PORT)
    with serving(tmp_path, *command, CONFIG=config) as server:
        broken = server.ask("/broken", post=True)["run"]
        until(lambda: server.ask(f"/runs/{broken}")["status"] == "failed")
        server.stop(signal.SIGTERM)
    told = "".join(line for line in server.printed if "HTTP" not in line)
    assert told.count(f"run={broken}") == (1 if shown else 0)
    assert told.count("ValueError: the part broke") == (2 if shown else 0)  # and the traceback's
    if not shown:
        assert (tmp_path / "log").read_text().count("run failed") == 1


@pytest.mark.examples(PAGE, "flask_app.py")
def test_flask_with_a_worker_in_a_thread(page: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "flask_app.py").write_text(page["flask_app.py"])
    program = "from flask_app import create_app; create_app(worker=True).run(port=0)"
    with serving(tmp_path, "-c", program) as server:
        summed = server.ask("/sums/2/3", post=True)["run"]
        until(lambda: server.ask(f"/runs/{summed}")["status"] == "succeeded")
        assert server.ask(f"/runs/{summed}")["result"] == 5
        for unknown in ("0197c0de-0000-7000-8000-000000000000", "no-id-at-all"):
            assert server.status(f"/runs/{unknown}") == 404
        server.stop(signal.SIGINT)
    app = Windlass(f"sqlite:///{tmp_path}/windlass.db")
    assert app.workers() == []  # it took itself off the list
    app.close()


def test_flask_enqueues_in_forked_processes(page: dict[str, str], tmp_path: Path, url: str) -> None:
    """As under a server that forks: the application was used before, and is used in each child."""
    (tmp_path / "flask_app.py").write_text(page["flask_app.py"])
    (tmp_path / "prefork.py").write_text(
        "import os\n"
        "from flask_app import app, create_app\n"
        "flask = create_app()\n"
        "def serve(n):\n"
        "    assert flask.test_client().post(f'/sums/{n}/{n}').status_code == 200\n"
        "serve(0)\n"
        "children = []\n"
        "for n in (1, 2, 3):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        serve(n)\n"
        "        serve(10 * n)\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "codes = [os.waitpid(child, 0)[1] for child in children]\n"
        "serve(100)\n"
        "assert codes == [0, 0, 0], codes\n"
        "with app.running_in_thread() as thread:\n"
        "    for made in app.list():\n"
        "        made.wait(timeout='20s')\n"
        "print(sorted(made.result for made in app.list(status='succeeded')))\n"
    )
    assert run(tmp_path, "prefork.py", WINDLASS_URL=url) == "[0, 2, 4, 6, 20, 40, 60, 200]\n"


# -- Django ---------------------------------------------------------------------------------------

MORE_JOBS = """

@app.job
def fresh_connection() -> bool:
    from django.db import connection

    clean = connection.connection is None
    User.objects.count()
    return clean


@app.job(executor="process")
def count_apart() -> int:
    return User.objects.count()


@app.job
async def wait_for_ever() -> None:
    import asyncio

    await asyncio.Event().wait()
"""


@pytest.fixture
def project(page: dict[str, str], tmp_path: Path) -> Path:
    """A new Django project with what the page adds."""
    run(tmp_path, "-m", "django", "startproject", "shop", ".")
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/__init__.py").touch()
    with (tmp_path / "shop/settings.py").open("a") as settings:
        settings.write(page["settings.py"] + "DEFAULT_AUTO_FIELD = 'django.db.models.AutoField'\n")
    (tmp_path / "orders/jobs.py").write_text(page["orders/jobs.py"] + MORE_JOBS)
    return tmp_path


def shell(project: Path, code: str) -> str:
    return run(project, "manage.py", "shell", "--verbosity", "0", "-c", code)


@pytest.mark.examples("docs/django.md", "settings.py", "orders/jobs.py")
def test_django_project_with_its_worker(project: Path) -> None:
    run(project, "manage.py", "migrate", "--verbosity", "0")
    shell(
        project,
        "from django.contrib.auth.models import User\n"
        "from orders.jobs import count_apart, count_users, fresh_connection\n"
        "User.objects.create(username='ada'); User.objects.create(username='bob')\n"
        "count_users.enqueue(prefix='a')\n"
        "fresh_connection.enqueue(); fresh_connection.enqueue(); count_apart.enqueue()\n",
    )
    run(project, "manage.py", "windlass_worker", "--drain", "--threads", "1")
    app = Windlass(f"sqlite:///{project}/windlass.db")
    results = [made.result for made in reversed(app.list(status="succeeded"))]
    assert results == [1, True, True, 2]
    app.close()

    told = shell(
        project,
        "from django.core.management import CommandError, call_command\n"
        "from orders.jobs import count_users\n"
        "made = count_users.enqueue()\n"
        "call_command('windlass_worker', drain=True)\n"
        "print(made.refresh().result)\n"
        "try:\n"
        "    call_command('windlass_worker')\n"
        "except CommandError as error:\n"
        "    print(error)\n",
    )
    assert told == "2\nInside another program it can only --drain.\n"

    told = run(
        project,
        *("-m", "windlass", "jobs", "list"),
        DJANGO_SETTINGS_MODULE="shop.settings",
        WINDLASS_APP="windlass.contrib.django.project",
    )
    assert "count_users" in told


def test_django_worker_stops_on_sigterm_and_gives_back(project: Path) -> None:
    app = Windlass(f"sqlite:///{project}/windlass.db")
    made = app.enqueue_many([Request.of_nothing("wait_for_ever")])[0]
    process = subprocess.Popen(
        [sys.executable, "manage.py", "windlass_worker"],
        cwd=project,
        env={**os.environ, "WINDLASS_DRAIN": "100ms"},
    )
    with process:
        try:
            until(lambda: made.refresh().status == "running")
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    made.refresh()
    assert (made.status, made.crash_count, app.workers()) == ("queued", 0, [])
    app.close()


# -- as a service ---------------------------------------------------------------------------------


def test_services_wait_longer_than_the_drain(page: dict[str, str]) -> None:
    needed = Settings.load(environ={}).drain + 5
    patterns = {
        "/etc/systemd/system/windlass.service": r"TimeoutStopSec=(\d+)",
        "deployment.yaml": r"terminationGracePeriodSeconds: (\d+)",
    }
    for name, pattern in patterns.items():
        found = re.search(pattern, page[name])
        assert found is not None
        assert int(found[1]) > needed
    assert "KillSignal=SIGTERM" in page["/etc/systemd/system/windlass.service"]
    assert "STOPSIGNAL SIGTERM" in page["Dockerfile"]
    assert 'CMD ["windlass", "worker"' in page["Dockerfile"]
