"""`windlass enqueue`: on both stores, by an application and by name alone."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import (
    command,
    fails,
    introduce,
    make_app,
    ok,
    ok_json,
    run,
    started,
    work,
    write_jobs,
)
from windlass import Run


@pytest.fixture
def known(url: str) -> str:
    """A store that knows jobs."""
    introduce(make_app(url))
    return url


def shown(url: str, run_id: str) -> Any:
    return ok_json("show", run_id.strip(), "--url", url, "--json")


def test_the_id_alone_is_printed(known: str) -> None:
    printed = ok("enqueue", "greet", '{"name": "Ada"}', "--url", known)

    found = shown(known, printed)
    assert printed == f"{found['id']}\n"
    assert (found["job"], found["status"], found["input"]) == ("greet", "queued", {"name": "Ada"})


@pytest.mark.parametrize("how", [[], ["--arg"]])
def test_arguments_one_by_one_are_json_or_text(known: str, how: list[str]) -> None:
    for given, read in {"Ada": "Ada", "a=b": "a=b", '"7"': "7", "": ""}.items():
        printed = ok("enqueue", "greet", *how, f"name={given}", "--url", known)
        assert shown(known, printed)["input"] == {"name": read}


def test_an_argument_counts_more_than_the_object(known: str) -> None:
    printed = ok("enqueue", "greet", '{"name": "Ada"}', "--arg", "name=Bob", "--url", known)

    assert shown(known, printed)["input"] == {"name": "Bob"}


def test_the_object_may_come_from_standard_input(known: str) -> None:
    printed = ok("enqueue", "greet", "-", "--url", known, input='{"name": "Zoë"}')

    assert shown(known, printed)["input"] == {"name": "Zoë"}


def test_all_options(known: str) -> None:
    printed = ok(
        *("enqueue", "greet", "--url", known, "--at", "2040-01-31T12:00Z", "--priority", "5"),
        *("--key", "k", "--key-ttl", "1h", "--queue", "slow", "--tag", "a", "--tag", "b"),
        *("--expires", "2041-01-31T12:00:00+01:00", "--max-attempts", "7", "--timeout", "90s"),
        *("--deadline", "2042-01-31T12:00Z"),
    )

    found = shown(known, printed)
    assert (found["status"], found["priority"], found["key"]) == ("scheduled", 5, "k")
    assert (found["queue"], found["tags"]) == ("slow", ["a", "b"])
    assert found["scheduled_for"] == "2040-01-31T12:00:00Z"
    assert found["expires_at"] == "2041-01-31T11:00:00Z"
    assert found["deadline_at"] == "2042-01-31T12:00:00Z"
    assert "0 failures of at most 7" in ok("show", printed.strip(), "--url", known)


def test_durations(known: str) -> None:
    found = shown(known, ok("enqueue", "greet", "--url", known, "--delay", "2h", "--expires", "1d"))

    created, due, expires = (
        datetime.fromisoformat(found[name]) for name in ("created_at", "due_at", "expires_at")
    )
    assert due - created == timedelta(hours=2)
    assert expires - created == timedelta(days=1)


def test_a_time_without_a_zone_is_local(known: str) -> None:
    found = shown(known, ok("enqueue", "greet", "--url", known, "--at", "2040-01-31T12:00"))

    local = datetime(2040, 1, 31, 12).astimezone(UTC)
    assert datetime.fromisoformat(found["scheduled_for"]) == local


def test_the_same_key_is_the_same_run(known: str) -> None:
    first = ok("enqueue", "greet", "--url", known, "--key", "k")

    assert ok("enqueue", "greet", "--url", known, "--key", "k") == first
    told = fails(4, "enqueue", "greet", "--url", known, "--key", "k", "--arg", "name=x")
    assert told.endswith(
        f"use another key, or the same input. See `windlass show {first.strip()}`."
    )


def test_a_unique_key_is_free_when_its_run_has_ended(known: str) -> None:
    keyed = ("enqueue", "greet", "--url", known, "--key", "k", "--unique", "live")
    first = ok(*keyed)
    assert ok(*keyed) == first
    ok("cancel", first.strip(), "--url", known)
    second = ok(*keyed)
    assert second != first

    told = fails(4, "retry", first.strip(), "--url", known)
    assert told.endswith(f"or cancel it first. See `windlass show {second.strip()}`.")


def test_metadata_and_trace_are_noted_and_shown(known: str) -> None:
    noted = ("--metadata", '{"who": "Ada"}', "--trace", "t1")
    run = ok("enqueue", "greet", "--url", known, *noted).strip()

    shown_to_people = ok("show", run, "--url", known)
    assert 'metadata  {"who": "Ada"}' in shown_to_people
    assert "trace     t1" in shown_to_people
    found = ok_json("show", run, "--url", known, "--json")
    assert (found["metadata"], found["trace"]) == ({"who": "Ada"}, "t1")


@pytest.mark.parametrize("text", ["[1]", "{", "5"])
def test_metadata_is_a_json_object(known: str, text: str) -> None:
    assert "--metadata" in fails(2, "enqueue", "greet", "--url", known, "--metadata", text)


def test_json_is_the_whole_run(known: str) -> None:
    found = ok_json("enqueue", "greet", "--url", known, "--json", "--tag", "t")

    assert (found["job"], found["status"], found["tags"]) == ("greet", "queued", ["t"])


def test_wait_prints_the_result(known: str) -> None:
    app = make_app(known)
    first = app.jobs["greet"].using(key="done").enqueue(name="Ada")
    work(app)

    waiting = ("enqueue", "greet", "--arg", "name=Ada", "--key", "done", "--url", known, "--wait")
    assert ok(*waiting) == '"Hello, Ada"\n'
    found = json.loads(ok(*waiting, "--json"))
    assert (found["id"], found["result"]) == (first.id, "Hello, Ada")


def test_wait_for_a_run_that_fails(known: str) -> None:
    app = make_app(known)
    failed = app.jobs["refuse"].using(key="done").enqueue()
    work(app)

    told = fails(1, "enqueue", "refuse", "--key", "done", "--url", known, "--wait")

    assert told.startswith(f"Run {failed.id} failed (fatal): windlass.domain.policy.Fatal: no.")
    assert told.endswith(f"See `windlass show {failed.id}`.")


def test_wait_not_for_ever(known: str) -> None:
    result = run("enqueue", "greet", "--url", known, "--wait", "--timeout-wait", "10ms")

    assert result.exit_code == 1
    hint, told = result.stderr.splitlines()
    assert hint.startswith("windlass: No worker is running: start one with `windlass worker` in ")
    assert "did not end within 0.01 s; it goes on. See `windlass show " in told


def test_who_stops_waiting_is_told_that_the_run_goes_on(
    known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "wait", interrupted)

    result = run("enqueue", "greet", "--url", known, "--wait")

    assert result.exit_code == 130
    assert re.search(
        r"\nwindlass: Not waiting any longer; run [-0-9a-f]{36} goes on\.\n\n?$", result.stderr
    )


def test_the_applications_jobs_make_a_new_file(folder: Path) -> None:
    write_jobs(folder, "sqlite:///new.db")

    ok("enqueue", "greet", "--app", "jobs")

    assert (folder / "new.db").exists()


def test_an_unknown_job(known: str) -> None:
    assert fails(2, "enqueue", "great", "--url", known) == (
        "There is no job 'great': did you mean 'greet'?"
    )
    assert fails(2, "enqueue", "xyz", "--url", known) == (
        "There is no job 'xyz': there are break_down, greet, refuse; start a worker that has it, "
        "or name the application that defines it by --app."
    )


def test_a_store_without_jobs(url: str) -> None:
    ok("migrate", "--url", url)

    assert "no worker has told the store of any job yet" in fails(
        2, "enqueue", "greet", "--url", url
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (['{"name"'], "The arguments are not JSON: "),
        (["[1]"], "The arguments must be a JSON object, by name, such as"),
        (['{"name": NaN}'], "The arguments are not JSON: NaN is not JSON."),
        (["[" * 100_000], "The arguments are nested too deeply."),
        (["--arg", "name"], "Invalid value for '--arg': 'name' is not NAME=VALUE."),
        (["--arg", "nome=x"], "Job 'greet' has no argument 'nome'"),
        (["nome=x"], "Job 'greet' has no argument 'nome'"),
        (['{"name":', '"Ada"}'], "'\"Ada\"}' is neither NAME=VALUE nor a part of the JSON object"),
        (["--arg", "name=7"], "Job 'greet' "),
        (["--delay", "5x"], "Invalid value for '--delay': '5x' is not a duration: "),
        (["--delay", "-5s"], "Invalid value for '--delay': '-5s' is not a duration: "),
        (["--at", "soon"], "Invalid value for '--at': 'soon' is not a time such as"),
        (["--expires", "soon"], "Invalid value for '--expires': 'soon' is neither a duration"),
        (["--priority", "high"], "Invalid value for '--priority': "),
        (["--priority", "99999"], "Invalid value for '--priority': "),
        (["--max-attempts", "0"], "Invalid value for '--max-attempts': "),
        (["--delay", "1s", "--at", "2040-01-01"], "give either --delay or --at, not both"),
        (["--key-ttl", "1h"], "Invalid value for '--key-ttl': it needs a key."),
        (["--queue", "a b"], "Invalid value for '--queue': "),
    ],
)
def test_wrong_usage(arguments: list[str], told: str, folder: Path) -> None:
    write_jobs(folder, "sqlite:///windlass.db")

    assert told in fails(2, "enqueue", "greet", *arguments, "--app", "jobs")


def test_nothing_is_enqueued_by_mistake(folder: Path) -> None:
    write_jobs(folder, "sqlite:///windlass.db")

    assert run("enqueue", "greet", "[]", "--app", "jobs").exit_code == 2

    assert not (folder / "windlass.db").exists()


TYPED = """
from dataclasses import dataclass

from windlass import Windlass

app = Windlass("sqlite:///windlass.db", poll="100ms")


@dataclass
class Sum:
    total: int


@app.job
def add(a: int, b: int) -> Sum:
    return Sum(a + b)
"""


def test_a_typed_result_is_printed_as_json(folder: Path) -> None:
    (folder / "typed.py").write_text(TYPED)
    with started(command("worker", "--app", "typed"), folder) as worker:
        worker.wait_for("worker started")
        assert ok("enqueue", "add", "a=1", "b=2", "--app", "typed", "--wait") == '{"total": 3}\n'
    made = ok("runs", "--app", "typed").split()[0]
    assert 'result    {"total": 3}' in ok("show", made, "--app", "typed")


def test_a_slip_in_the_name_makes_no_store(folder: Path) -> None:
    (folder / "typed.py").write_text(TYPED)

    assert fails(2, "enqueue", "ad", "--app", "typed") == (
        "There is no job 'ad': did you mean 'add'?"
    )
    assert fails(2, "enqueue", "mail", "--app", "typed").startswith(
        "There is no job 'mail': there are add; start a worker that has it"
    )
    assert not (folder / "windlass.db").exists()
