"""Workers as processes: signals, draining, and ends that nothing holds up."""

import json
import os
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.kit import PATIENCE, command, ok, ok_json, started, write_jobs
from tests.conftest import Cluster
from tests.fixtures.postgres import create_database, drop_database
from windlass.errors import SchemaMismatch
from windlass.store.queries import load_migrations

STARTED = "worker started"
HANDLER = "handler started"
WORKER = command("worker", "--app", "jobs")


@pytest.fixture
def store(folder: Path) -> str:
    """The URL of the store of the application `jobs` in the working directory."""
    found = f"sqlite:///{folder}/windlass.db"
    write_jobs(folder, found)
    return found


@pytest.fixture
def flag(folder: Path) -> Path:
    """The file for which the job `wait_for_file` waits."""
    return folder / "go"


def enqueue(job: str, *arguments: str) -> str:
    return ok("enqueue", job, *arguments, "--app", "jobs").strip()


def outcome(store: str, run_id: str) -> tuple[str, list[str]]:
    """A run's status, and how its attempts ended."""
    found = ok_json("show", run_id, "--url", store, "--json")
    return found["status"], [attempt["outcome"] for attempt in found["attempts"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_handlers_finish(
    folder: Path, store: str, flag: Path, number: signal.Signals
) -> None:
    running = enqueue("wait_for_file", "--arg", f"path={flag}")
    with started(WORKER, folder) as process:
        process.wait_for(HANDLER)
        process.send(number)
        process.wait_for("worker stopping")
        late = enqueue("greet")
        flag.touch()

        assert process.ends() == 0

    assert outcome(store, running) == ("succeeded", ["succeeded"])
    assert outcome(store, late) == ("queued", [])
    assert "Traceback" not in process.output


def test_what_is_unfinished_when_the_grace_is_over_goes_back(folder: Path, store: str) -> None:
    running = enqueue("wait_for_file", "--arg", "path=never")
    with started(WORKER, folder, {"WINDLASS_DRAIN": "50ms"}) as process:
        process.wait_for(HANDLER)
        process.send(signal.SIGTERM)

        assert process.ends() == 0

    assert outcome(store, running) == ("queued", ["interrupted"])


@pytest.mark.parametrize("job", ["stubborn", "deaf"])
def test_a_handler_that_does_not_end_cannot_hold_the_process(
    folder: Path, store: str, job: str
) -> None:
    running = enqueue(job, "--arg", "seconds=600")
    with started(WORKER, folder, {"WINDLASS_DRAIN": "50ms"}) as process:
        process.wait_for(HANDLER)
        process.send(signal.SIGTERM)

        assert process.ends() == 0

    assert outcome(store, running) == ("queued", ["interrupted"])


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
@pytest.mark.parametrize("job", ["wait_for_file", "blocking"])
def test_a_second_signal_ends_it_at_once(
    folder: Path, store: str, job: str, number: signal.Signals, code: int
) -> None:
    # "blocking" blocks the event loop itself.
    argument = "path=never" if job == "wait_for_file" else "seconds=600"
    running = enqueue(job, "--arg", argument)
    with started(WORKER, folder) as process:
        process.wait_for(HANDLER)
        process.insist(number)

        assert process.ends() == code

    assert outcome(store, running)[0] == "running"


def test_two_signals_in_one_moment_are_one(folder: Path, store: str, flag: Path) -> None:
    # Terminals tell the whole group, and process managers pass it on to their children.
    running = enqueue("wait_for_file", "--arg", f"path={flag}")
    with started(WORKER, folder) as process:
        process.wait_for(HANDLER)
        process.send(signal.SIGSTOP)  # both are there when it goes on
        process.send(signal.SIGINT)
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
        process.wait_for("worker stopping")
        flag.touch()

        assert process.ends() == 0

    assert outcome(store, running) == ("succeeded", ["succeeded"])


def test_a_signal_while_the_application_is_imported(folder: Path) -> None:
    (folder / "jobs.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(600)\napp = None\n"
    )
    with started(WORKER, folder) as process:
        process.wait_for("importing")
        process.send(signal.SIGTERM)

        assert process.ends() == 0

    assert process.lines == ["importing"]


def test_a_signal_while_the_store_is_waited_for(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_jobs(folder, f"postgresql://127.0.0.1:{silent.getsockname()[1]}/none")
        with started(WORKER, folder) as process:
            silent.settimeout(PATIENCE)
            connection, _ = silent.accept()
            with connection:
                process.send(signal.SIGTERM)

                assert process.ends() == 0

    assert "Traceback" not in process.output


@pytest.mark.parametrize("wrapper", ["{}", "trap : TERM; {}; exit $?"], ids=["alone", "waits"])
def test_a_shell_around_it(folder: Path, url: str, flag: Path, wrapper: str) -> None:
    write_jobs(folder, url)
    running = enqueue("wait_for_file", "--arg", f"path={flag}")
    with started(["sh", "-c", wrapper.format(shlex.join(WORKER))], folder) as process:
        process.wait_for(HANDLER)
        os.killpg(process.process.pid, signal.SIGTERM)
        process.wait_for("worker stopping")
        flag.touch()
        process.wait_for("worker stopped")

        # A shell that stays and has no trap is ended by the signal itself.
        assert process.ends() in ((0,) if "trap" in wrapper else (0, -signal.SIGTERM))

    assert outcome(url, running) == ("succeeded", ["succeeded"])


def test_drain_ends_when_nothing_is_left(folder: Path, url: str) -> None:
    write_jobs(folder, url)
    done = [enqueue("greet", "--arg", f"name={n}") for n in "abc"]
    again = enqueue("fail_once")
    later = enqueue("greet", "--delay", "1h")
    with started([*WORKER, "--drain"], folder) as process:
        assert process.ends() == 0

    assert [outcome(url, run_id)[0] for run_id in done] == ["succeeded"] * 3
    assert outcome(url, again) == ("succeeded", ["failed", "succeeded"])
    assert outcome(url, later) == ("scheduled", [])
    assert "nothing left to do" in process.output


def test_drain_leaves_what_sleeps_or_waits(folder: Path, url: str) -> None:
    """That is no work to do now, nor does it lack a worker once this one has gone."""
    write_jobs(folder, url)
    waits, sleeps = enqueue("wait_for_signal"), enqueue("sleep_a_month")
    with started([*WORKER, "--drain", "--log", "json"], folder) as process:
        assert process.ends() == 0

    assert outcome(url, waits) == ("waiting", ["waited"])
    assert outcome(url, sleeps) == ("scheduled", ["waited"])
    lines = {line["run"]: line for line in map(json.loads, process.lines) if "run" in line}
    assert lines[waits]["message"] == "run waits for paid"
    assert lines[sleeps]["message"].startswith("run sleeps until 2")
    assert (lines[waits]["waits"], lines[sleeps]["waits"]) == ("paid", "a month")
    assert {line["level"] for line in lines.values()} == {"INFO"}

    with started([*WORKER, "--drain", "--queues", "other"], folder) as process:
        assert process.ends() == 0
    assert "no worker serves" not in process.output


def test_drain_leaves_what_is_paused_and_says_so(folder: Path, url: str) -> None:
    write_jobs(folder, url)
    held = [enqueue("greet", "--queue", "mail") for _ in range(2)]
    done, stopped = enqueue("greet"), enqueue("fail_once")
    ok("queues", "pause", "mail", "--as", "ann", "--reason", "the relay is down", "--url", url)
    ok("jobs", "pause", "fail_once", "--as", "bob", "--url", url)
    with started([*WORKER, "--drain", "--log", "json"], folder) as process:
        assert process.ends() == 0

    assert outcome(url, done)[0] == "succeeded"
    assert {outcome(url, run)[0] for run in (*held, stopped)} == {"queued"}
    lines = [json.loads(line) for line in process.lines]
    told = [line for line in lines if line["message"] == "runs wait that are paused"]
    named = [(line.get("queue"), line.get("job"), line["by"], line["waiting"]) for line in told]
    assert sorted(named, key=str) == [("mail", None, "ann", 2), (None, "fail_once", "bob", 1)]
    (last,) = [line for line in lines if line["message"] == "nothing left to do"]
    assert last["paused"] == 3
    assert "no worker serves" not in process.output


def test_draining_an_empty_store_makes_the_jobs_known(folder: Path, store: str) -> None:
    with started([*WORKER, "--drain"], folder) as process:
        assert process.ends() == 0

    ok("enqueue", "greet", "--url", store)


def test_the_first_line_says_what_it_is(folder: Path, url: str) -> None:
    write_jobs(folder, url)
    options = ["--log", "json", "--queues", "mail,default", "--concurrency", "3", "--threads", "2"]
    with started([*WORKER, *options, "--drain"], folder) as process:
        assert process.ends() == 0

    lines = [json.loads(line) for line in process.lines]
    if url.startswith("sqlite"):  # the file was not there
        assert lines.pop(0)["message"] == "making a new store"
    first = lines[0]
    assert first["message"] == STARTED
    assert first["worker"]
    assert (first["queues"], first["jobs"], first["seats"]) == ("mail,default", 8, 5)
    assert first["store"].startswith(url.partition(":")[0])
    assert (urlsplit(url).password or "no password") not in process.output


def test_other_queues_are_left_alone(folder: Path, store: str) -> None:
    here = enqueue("greet", "--queue", "here")
    there = enqueue("greet", "--queue", "there")
    with started([*WORKER, "--queues", "here", "--drain"], folder) as process:
        assert process.ends() == 0

    assert outcome(store, here)[0] == "succeeded"
    assert outcome(store, there)[0] == "queued"


@pytest.mark.parametrize(
    ("module", "options", "code", "told"),
    [
        (None, [], 2, "No application is named: give --app module:name, set WINDLASS_APP, or"),
        ("from windlass import Windlass\napp = Windlass()", [], 2, "The application has no jobs: "),
        ("", ["--threads", "0"], 2, "Invalid value for '--threads': '0' is not a whole number"),
        ("", ["--log", "xml"], 2, "Invalid value for '--log': 'xml' is not one of console, json."),
        ("", ["--queues", "a b"], 2, "Invalid value for '--queues': "),
    ],
)
def test_a_worker_that_cannot_start_says_why(
    folder: Path, module: str | None, options: list[str], code: int, told: str
) -> None:
    named = [] if module is None else ["--app", "simple"]
    (folder / "simple.py").write_text(module or "")
    with started(command("worker", *named, *options), folder) as process:
        assert process.ends() == code

    assert len(process.lines) == 1
    assert process.lines[0].startswith(f"windlass: {told}")


def test_a_worker_on_a_store_without_a_schema_says_what_to_do(
    folder: Path, pg_cluster: Cluster
) -> None:
    name = f"wl_bare_{os.urandom(4).hex()}"
    write_jobs(folder, create_database(pg_cluster.dsn, name))
    try:
        with started(WORKER, folder) as process:
            assert process.ends() == 5
    finally:
        drop_database(pg_cluster.dsn, name)

    assert process.output == (
        f"windlass: {SchemaMismatch(None, load_migrations('postgres')[-1].version)}"
    )


def test_a_reader_who_leaves_early_is_no_error(folder: Path, store: str) -> None:
    enqueue("greet", "--arg", f"name={'x' * 500_000}")
    with subprocess.Popen(
        command("runs", "--json", "--url", store),
        # Unbuffered, Python takes a write that was cut short for a whole one.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"["
        process.stdout.close()

        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 141


def test_ctrl_c_while_waiting_for_a_result(folder: Path, store: str) -> None:
    waiting = ("enqueue", "wait_for_file", "--arg", "path=never", "--app", "jobs", "--wait")
    with started(WORKER, folder) as worker, started(command(*waiting), folder) as process:
        worker.wait_for(HANDLER)
        process.send(signal.SIGINT)

        assert process.ends() == 130
        worker.insist(signal.SIGTERM)

    assert "Traceback" not in process.output
