"""What the docs say is what the code does: their examples are run, their tables compared."""

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.pages import Examples, blocks
from tools import make_docs
from windlass import errors, logs
from windlass.cli import failures
from windlass.client.filters import SelectOptions
from windlass.client.requests import UsingOptions
from windlass.config import PREFIX, Settings
from windlass.domain.bulk import BULK_VERBS
from windlass.domain.event import AttemptOutcome
from windlass.domain.job import JobOptions
from windlass.domain.states import FINISHED, TRANSITIONS, Failure, Status, Verb
from windlass.domain.step import StepState

ROOT = Path(__file__).parents[2]
WINDLASS = Path(sys.executable).parent / "windlass"
QUICK_START = "Quick start"


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.examples("README.md", QUICK_START)
def test_readme_quick_start_works_when_pasted(examples: Examples, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(examples[QUICK_START])
    for times in (1, 2):  # a reader who repeats it gets the same again
        printed = run(tmp_path, sys.executable, "tasks.py")
        assert printed.split()[1] == "queued"
        run(tmp_path, str(WINDLASS), "worker", "--app", "tasks:app", "--drain")
        listing = run(tmp_path, str(WINDLASS), "runs", "--app", "tasks:app")
        assert listing.count("send_welcome") == listing.count("resize") == times
        assert listing.count("succeeded") == 2 * times


@pytest.mark.examples("README.md")
def test_readme_shows_calls_that_work_as_often_as_they_are_made(
    examples: Examples, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(examples[QUICK_START])
    examples.write(tmp_path, "shop.py")
    for _ in range(2):
        first, *queued = run(tmp_path, sys.executable, "shop.py").splitlines()
        assert first == "{'sent_to': 7}"
        inputs = sorted(int(line.partition(": ")[2].strip("}")) for line in queued)
        assert set(inputs) == {8, 9, 10}


@pytest.mark.examples("docs/projects.md")
def test_project_layouts_of_the_page_work(examples: Examples, tmp_path: Path) -> None:
    examples.write(tmp_path)
    run(tmp_path, sys.executable, "tasks.py")
    run(tmp_path, str(WINDLASS), "worker", "--app", "tasks", "--drain")
    run(tmp_path, sys.executable, "-c", "import shop.app, shop.signup as s; s.sign_up(7)")
    run(
        tmp_path,
        sys.executable,
        "-c",
        "import shop.worker as w; assert 'mail.welcome' in w.app.jobs",
    )
    factory = "shop.factory:make_app"
    run(tmp_path, str(WINDLASS), "worker", "--app", factory, "--drain")
    listing = run(tmp_path, str(WINDLASS), "runs", "--app", factory)
    assert "mail.welcome" in listing
    assert listing.count("succeeded") == 2


@pytest.mark.examples("docs/job-files.md")
def test_job_files_of_the_page_work(examples: Examples, tmp_path: Path) -> None:
    hello, options, fails, tasks, python = examples.values()
    (tmp_path / "jobs" / "reports").mkdir(parents=True)
    (tmp_path / "jobs" / "hello.py").write_text(hello)
    (tmp_path / "jobs" / "reports" / "daily.py").write_text(options)
    (tmp_path / "jobs" / "parcel.py").write_text(
        fails.replace("max_attempts = 5", "max_attempts = 1")
    )
    (tmp_path / "jobs" / "uses.py").write_text(
        "def run(ctx):\n    return ctx.resources.db.execute('select 7').fetchone()[0]"
    )
    (tmp_path / "tasks.py").write_text(tasks)
    (tmp_path / "listing.py").write_text(python)

    assert run(tmp_path, str(WINDLASS), "jobs", "check") == "4 job files, nothing wrong.\n"
    assert "reports.daily" in run(tmp_path, sys.executable, "listing.py")
    worker = (str(WINDLASS), "worker", "--drain", "--app", "tasks")
    run(tmp_path, *worker)
    run(tmp_path, str(WINDLASS), "enqueue", "hello", "--arg", "name=Ada")
    run(tmp_path, str(WINDLASS), "enqueue", "uses")
    run(tmp_path, str(WINDLASS), "enqueue", "parcel", "order=7")
    run(tmp_path, *worker)
    greetings = json.loads(run(tmp_path, str(WINDLASS), "jobs", "runs", "hello", "--json"))
    # Its schedule may have come meanwhile, too.
    (greeted,) = [one for one in greetings if one["input"].get("name") == "Ada"]
    (used,) = json.loads(run(tmp_path, str(WINDLASS), "jobs", "runs", "uses", "--json"))
    assert (greeted["result"], used["result"]) == ("Hello, Ada", 7)
    (told,) = json.loads(
        run(tmp_path, str(WINDLASS), "jobs", "runs", "parcel.on_failure", "--json")
    )
    assert told["status"] == "succeeded"
    assert told["input"]["failed"]["input"] == {"order": 7}


@pytest.mark.examples("docs/settings.md")
def test_the_pool_of_the_page_lends(examples: Examples, tmp_path: Path, pg_database: str) -> None:
    (handed_in,) = examples.values()
    program = handed_in.replace("postgresql://localhost/jobs", pg_database) + (
        "with pool:\n    print(len(app.list()), pool.get_stats()['requests_num'])\n"
    )
    assert run(tmp_path, sys.executable, "-c", program) == "0 1\n"


def test_page_of_jobs_lists_every_filter_and_every_verb_for_many() -> None:
    page = (ROOT / "docs/jobs.md").read_text("utf-8")
    filters = page.split("| filter | only runs |")[1].split("\n\n")[0]
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|( `[^|]*)", filters, re.MULTILINE)))
    verbs = page.split("| verb | which runs")[1].split("\n\n")[0]

    assert sorted(named) == sorted(SelectOptions.__annotations__)
    assert re.findall(r"^\| `(\w+)\(", verbs, re.MULTILINE) == list(BULK_VERBS)


def test_page_of_jobs_lists_every_option() -> None:
    page = (ROOT / "docs/jobs.md").read_text("utf-8")

    def named(start: str, end: str) -> list[str]:
        part = page.split(start)[1].split(end)[0]
        first = re.findall(r"^\|( `[^|]*)", part, re.MULTILINE)
        return [name for cell in first for name in re.findall(r"`(\w+)`", cell)]

    options = named("## Options of a job", "## Making runs")
    assert sorted(options) == sorted(JobOptions.__annotations__)
    found = named("`using` sets", "## When it fails")
    assert sorted(found) == sorted(UsingOptions.__annotations__)


def test_protocol_page_runs_block_by_block(pg_database: str) -> None:
    found = [block.text for block in blocks("docs/protocol.md") if block.language == "sql"]
    assert len(found) >= 10
    with psycopg.connect(pg_database, autocommit=True) as conn:
        with _rights_of_a_client(conn):
            for block in found:
                conn.execute(block.encode())
        rows = conn.execute(
            "select status, count(*) from windlass.list_runs('default') group by 1"
        ).fetchall()
    # 7 succeeded; 8 waits for its time; 9 was retried and moved about, 10 was released, 11 was
    # sent the signal that it waited for.
    assert dict(rows) == {"succeeded": 1, "scheduled": 1, "queued": 3}


@contextmanager
def _rights_of_a_client(conn: psycopg.Connection[tuple[object, ...]]) -> Iterator[None]:
    """Have the rights that the page tells of, and no others."""
    role = sql.Identifier(f"wl_page_{secrets.token_hex(6)}")
    for command in (
        "create role {}",
        "grant usage on schema windlass to {}",
        "grant execute on all functions in schema windlass to {}",
        "grant select on windlass.events to {}",
        "set role {}",
    ):
        conn.execute(sql.SQL(command).format(role))
    yield
    for command in ("reset role", "drop owned by {}", "drop role {}"):
        conn.execute(sql.SQL(command).format(role))


def test_what_the_protocol_names_exists(pg_database: str) -> None:
    page = (ROOT / "docs/protocol.md").read_text("utf-8")
    named = set(re.findall(r"`windlass\.(\w+)(?:\(.*?\))?`", page))
    with psycopg.connect(pg_database) as conn:
        rows = conn.execute(
            "select proname from pg_proc where pronamespace = 'windlass'::regnamespace"
            " union select relname from pg_class where relnamespace = 'windlass'::regnamespace"
        ).fetchall()
    assert {"enqueue", "claim", "reschedule"} <= named <= {name for (name,) in rows}


def test_page_of_states_is_made_from_the_table() -> None:
    assert make_docs.PAGE.read_text("utf-8") == make_docs.page()


def test_every_state_verb_and_failure_is_explained() -> None:
    assert set(make_docs.STATUSES) == set(Status)
    assert set(make_docs.VERBS) == set(Verb)
    assert set(make_docs.FAILURES) == set(Failure)
    assert set(TRANSITIONS) == set(Status)


def test_page_of_errors_lists_every_one_with_its_code() -> None:
    page = (ROOT / "docs/errors.md").read_text("utf-8")
    rows = re.findall(r"^\| (?:· )*`(\w+)` \| `(\w+)` \|", page, re.MULTILINE)

    def below(kind: type[errors.WindlassError]) -> Iterator[tuple[str, str]]:
        for each in kind.__subclasses__():
            if each.__module__.startswith(errors.__name__):
                yield each.__name__, each.code
                yield from below(each)

    assert sorted(rows) == sorted(below(errors.WindlassError))
    retryable = {name for name, _ in rows if getattr(errors, name).retryable}
    assert retryable == {"StoreUnavailable", "StoreBusy", "EgressFailed"}


def test_page_of_commands_has_every_exit_code_and_every_member_of_a_log() -> None:
    page = (ROOT / "docs/commands.md").read_text("utf-8")
    told = {
        int(code)
        for row in re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
        for code in row.split(",")
    }
    codes = re.findall(r"^ +(\d+)  |  (\d+)  ", failures.__doc__ or "", re.MULTILINE)
    assert told == {int(one or other) for one, other in codes} | {143}
    for member in logs.FIELDS:
        assert f"`{member}`" in page


def test_settings_page_lists_every_setting() -> None:
    page = (ROOT / "docs/settings.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE)
    names = {f.name for f in fields(Settings)} - {"jobs_named"}  # which follows from `jobs`
    assert dict(rows) == {name: PREFIX + name.upper() for name in names}


def test_file_of_settings_is_read(tmp_path: Path) -> None:
    (block,) = (block for block in blocks("docs/settings.md") if block.language == "toml")
    (tmp_path / str(block.file)).write_text(block.text)
    found = Settings.load(environ={}, directory=tmp_path)
    assert (found.url, found.app, found.lease) == ("postgresql://localhost/jobs", "tasks:app", 30)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_checks_of_the_schema_follow_the_tables(dialect: str) -> None:
    path = ROOT / f"src/windlass/store/sql/{dialect}/migrations/0001_core.sql"
    checks: dict[str, list[set[str]]] = {}
    schema = path.read_text("utf-8")
    for column, listed in re.findall(r"(?i)check \((\w+) in\s*\(([^)]*)\)", schema):
        checks.setdefault(column, []).append(set(re.findall(r"'([^']*)'", listed)))
    assert {status.value for status in FINISHED} in checks["status"]
    assert checks["failure"][0] == {failure.value for failure in Failure}
    assert checks["outcome"] == [{outcome.value for outcome in AttemptOutcome}]
    assert checks["why"] == [{"delay", "backoff", "snooze", "sleep", "wait", "held", "paused"}]
    assert checks["state"] == [{state.value for state in StepState}]
