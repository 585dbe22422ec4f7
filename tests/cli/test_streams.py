"""Standard streams that are closed, broken, or know few signs: the work is done all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.cli.kit import PATIENCE, command, ok_json
from windlass import Windlass

CLOSED = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
ASCII = {
    "LC_ALL": "C",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii",
    "PYTHONUTF8": "0",
}
MODULE = '''
import os
from windlass import Windlass

app = Windlass("{url}")
NOTHING = os.stat(os.devnull).st_rdev


def streams() -> list[str]:
    """What the standard streams are."""
    found = [os.fstat(number) for number in range(3)]
    return ["nothing" if status.st_rdev == NOTHING else "open" for status in found]


@app.job
def here() -> list[str]:
    print("Grüße, Zoë", flush=True)
    return streams()


@app.job(executor="process")
def there() -> list[str]:
    print("Grüße, Zoë", flush=True)
    return streams()


@app.job
def fail(name: str) -> None:
    raise ValueError(f"Grüße, {{name}}")
'''
CLOSING = """
import os, sys
for number in sys.argv[1]:
    os.close(int(number))
os.execv(sys.argv[2], sys.argv[2:])
"""
HOST = """
import asyncio
from jobs import app

async def main():
    async with app.running(threads=1, services=False) as worker:
        await worker.drained()

asyncio.run(main())
"""


@pytest.fixture
def app(folder: Path) -> Windlass:
    """The application `jobs` of the working directory, as the test sees it."""
    url = f"sqlite:///{folder}/windlass.db"
    (folder / "jobs.py").write_text(MODULE.format(url=url))
    app = Windlass(url)
    app.migrate()
    return app


def without(closed: Sequence[int], arguments: Sequence[str]) -> int:
    """Run a program with these standard streams closed, the others open; return its exit code."""
    digits = "".join(map(str, closed))
    done = subprocess.run(
        [sys.executable, "-c", CLOSING, digits, *arguments],
        input=b"",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode


def seen(closed: Iterable[int]) -> list[str]:
    return ["nothing" if number in closed else "open" for number in range(3)]


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_closed_streams_are_opened_to_nothing_in_a_worker_and_its_children(
    app: Windlass, closed: tuple[int, ...]
) -> None:
    runs = [ok_json("enqueue", job, "--app", "jobs", "--json")["id"] for job in ("here", "there")]

    assert without(closed, command("worker", "--app", "jobs", "--drain")) == 0

    here, there = (app.get(run) for run in runs)
    assert here.result == seen(closed)
    assert there.result == seen((0, *closed))  # a child has no input in any case


def test_closed_streams_are_opened_to_nothing_under_a_supervisor(app: Windlass) -> None:
    runs = [ok_json("enqueue", job, "--app", "jobs", "--json")["id"] for job in ("here", "there")]

    arguments = command("worker", "--app", "jobs", "--drain", "--processes", "2")
    assert without((0, 1, 2), arguments) == 0

    assert [app.get(run).result for run in runs] == [["nothing"] * 3] * 2


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_enqueue_with_closed_streams(app: Windlass, closed: tuple[int, ...]) -> None:
    assert without(closed, command("enqueue", "here", "--app", "jobs")) == 0
    assert [run.job for run in app.list()] == ["here"]


def test_a_host_without_streams_has_child_processes(app: Windlass) -> None:
    """Its sockets have the numbers of the streams; that of a child must not."""
    run = ok_json("enqueue", "there", "--app", "jobs", "--json")["id"]

    assert without((0, 1, 2), [sys.executable, "-c", HOST]) == 0

    assert app.get(run).result == ["nothing"] * 3


def in_ascii(*arguments: str, input: bytes = b"", code: int = 0) -> str:
    """Run a command in an ASCII locale; return what it prints."""
    done = subprocess.run(
        command(*arguments),
        env={**os.environ, **ASCII},
        input=input,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stderr.decode()
    assert b"\nTraceback" not in done.stderr  # those of handlers are behind a bar
    return done.stdout.decode()


def test_commands_in_an_ascii_locale(app: Windlass) -> None:
    given = json.dumps({"name": "Zoë"}, ensure_ascii=False).encode()
    run = in_ascii("enqueue", "fail", "-", "--app", "jobs", "--max-attempts", "1", input=given)
    here = in_ascii("enqueue", "here", "--app", "jobs").strip()
    in_ascii("worker", "--app", "jobs", "--drain")

    # The handler printed to a stream of its own, which must not be the run's failure.
    assert app.get(here).status == "succeeded"
    shown = in_ascii("show", run.strip(), "--app", "jobs")
    assert "Gr" in shown
    assert "?" not in shown.partition("Gr")[2].splitlines()[0]
    for name in (["runs"], ["jobs", "list"], ["workers"], ["dead", "list"]):
        in_ascii(*name, "--app", "jobs")
    told = in_ascii("show", run.strip(), "--url", "sqlite:///Zoë.db", code=5)
    assert told == ""


def test_a_store_whose_name_is_not_ascii_in_an_ascii_locale(
    app: Windlass, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any way in which it can be named."""
    place = folder / "Zoë"
    place.mkdir()
    other = f"sqlite:///{place}/windlass.db"
    (place / "jobs.py").write_text(MODULE.format(url=other))
    monkeypatch.chdir(place)
    names = (other, other.replace("ë", "%C3%AB"), "sqlite:///windlass.db", None)
    for name in names:
        in_ascii("enqueue", "there", "--app", "jobs", *([] if name is None else ["--url", name]))
    in_ascii("worker", "--app", "jobs", "--drain")
    in_ascii("backup", "copy.db", "--app", "jobs")

    for file in (other, f"sqlite:///{place}/copy.db"):
        assert [run.status for run in Windlass(file).list()] == ["succeeded"] * len(names)


def test_what_an_encoding_lacks_is_escaped(app: Windlass, folder: Path) -> None:
    with (folder / "jobs.py").open("a", encoding="utf-8") as file:
        file.write('\n\n@app.job(name="日本")\ndef japan() -> None:\n    return None\n')
    done = subprocess.run(
        command("jobs", "list", "--app", "jobs"),
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert rb"\u65e5\u672c" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nobody_reads_the_complaint(app: Windlass, unbuffered: str) -> None:
    """The exit code is the one that the error has."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command("show", "nothing", "--app", "jobs"),
            stderr=writer,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 3
