"""Which application and which store a command works with, and what it says when there is none."""

import signal
from pathlib import Path

import pytest

from tests.cli.kit import command, fails, ok, started, write_jobs
from windlass import Windlass


def sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def jobs(folder: Path) -> str:
    """An application in the working directory, with a store of its own."""
    own = sqlite(folder / "own.db")
    write_jobs(folder, own)
    return own


def names_in(path: Path) -> list[str]:
    app = Windlass(sqlite(path))
    found = [run.job for run in app.list()]
    app.close()
    return found


def test_the_application_is_found_in_the_working_directory(folder: Path, jobs: str) -> None:
    ok("enqueue", "greet", "--app", "jobs")

    assert names_in(folder / "own.db") == ["greet"]


def test_app_and_url_may_stand_before_the_command(folder: Path, jobs: str) -> None:
    ok("--app", "jobs:app", "enqueue", "greet")
    ok("--app", "jobs:app", "--url", sqlite(folder / "other.db"), "enqueue", "greet")

    assert names_in(folder / "own.db") == ["greet"]
    assert names_in(folder / "other.db") == ["greet"]


def test_the_environment_and_the_file_name_the_application(
    folder: Path, jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "windlass.toml").write_text('[windlass]\napp = "jobs:app"\n')
    ok("enqueue", "greet")
    write_jobs(folder, sqlite(folder / "more.db"), "more")
    monkeypatch.setenv("WINDLASS_APP", "more")
    ok("enqueue", "greet")

    assert names_in(folder / "own.db") == ["greet"]
    assert names_in(folder / "more.db") == ["greet"]


def test_below_the_folder_of_the_file_the_application_is_found(
    folder: Path, jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "windlass.toml").write_text('[windlass]\napp = "jobs"\n')
    (folder / "deeper").mkdir()
    monkeypatch.chdir(folder / "deeper")

    ok("enqueue", "greet")

    assert names_in(folder / "own.db") == ["greet"]


def test_a_url_counts_more_than_the_applications_own(folder: Path, jobs: str) -> None:
    ok("enqueue", "greet", "--app", "jobs", "--url", sqlite(folder / "other.db"))

    assert names_in(folder / "other.db") == ["greet"]
    assert not (folder / "own.db").exists()


def test_the_variable_does_not_count_more_than_the_applications_own(
    folder: Path, jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for the application itself: otherwise its processes would not meet.
    monkeypatch.setenv("WINDLASS_URL", sqlite(folder / "other.db"))

    ok("enqueue", "greet", "--app", "jobs")

    assert names_in(folder / "own.db") == ["greet"]


def test_a_url_is_enough_to_look(folder: Path, jobs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ok("enqueue", "greet", "--app", "jobs")
    monkeypatch.setenv("WINDLASS_APP", "broken")
    (folder / "broken.py").write_text("1 / 0\n")

    assert "greet" in ok("runs", "--url", jobs)


def test_looking_makes_no_file(folder: Path) -> None:
    missing = folder / "windlass.db"

    for arguments in (
        ["runs"],
        ["show", "x"],
        ["cancel", "x"],
        ["retry", "x"],
        ["dead"],
        ["migrate", "--check"],
        ["enqueue", "greet"],
    ):
        told = fails(5, *arguments)
        assert told.startswith(f"There is no file {missing}: ")
        assert told.endswith("name another store by --url.")
    assert not missing.exists()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://x/y", "Invalid value for '--url': the value given is not a URL such as"),
        ("postgresql+psycopg://u:pass@h/db", "postgresql://… (without a driver: no +psycopg)"),
        ("sqlite:windlass.db", "Invalid value for '--url': the value given is not a URL such as"),
        ("sqlite://windlass.db", "needs three slashes, as in sqlite:///windlass.db"),
        ("postgresql://u:pass#word@h/db", "write special characters of user and password as %XX"),
    ],
)
def test_a_wrong_url_is_refused_without_being_shown(url: str, told: str) -> None:
    sentence = fails(2, "runs", "--url", url)

    assert told in sentence
    assert "pass" not in sentence.replace("password", "")


def test_an_unreachable_server_is_told_at_once() -> None:
    for arguments in (["runs"], ["dead"], ["migrate"], ["migrate", "--check"]):
        told = fails(5, *arguments, "--url", "postgresql://me:secret@127.0.0.1:1/none")
        assert told.startswith("PostgreSQL cannot be reached: ")
        assert told.endswith("Check the URL, and whether the database is up.")
        assert "secret" not in told


def test_no_application(folder: Path) -> None:
    # The worker's other tests are with the processes: it takes signals over.
    (folder / "empty.py").write_text("")

    told = fails(2, "enqueue", "greet", "--app", "empty")

    assert told == (
        "Module 'empty' has no 'app' and no other Windlass: "
        "write `app = Windlass(...)` there, or change --app."
    )


def test_a_missing_module_says_where_it_was_looked_for(folder: Path) -> None:
    told = fails(2, "enqueue", "greet", "--app", "nowhere.jobs:app")

    assert told.startswith(f"There is no module 'nowhere': looked in {folder} and among")


def test_a_missing_part_of_a_package_is_named(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").write_text("")

    assert fails(2, "enqueue", "x", "--app", "shop.jobs").startswith(
        "There is no module 'shop.jobs': "
    )


def test_a_module_that_fails_says_where(folder: Path) -> None:
    (folder / "helper.py").write_text("def help():\n    raise KeyError('price')\n")
    (folder / "broken.py").write_text("import helper\n\nhelper.help()\n")

    told = fails(2, "enqueue", "greet", "--app", "broken")

    assert told == (
        f"Module 'broken' cannot be imported: KeyError: 'price' ({folder}/helper.py, line 2, "
        "`raise KeyError('price')`); `python -c 'import broken'` shows all of it."
    )


def test_a_module_that_needs_a_missing_one_says_so(folder: Path) -> None:
    (folder / "needy.py").write_text("import json\nimport no_such_library\n")

    told = fails(2, "enqueue", "greet", "--app", "needy")

    assert "ModuleNotFoundError: No module named 'no_such_library'" in told
    assert f"({folder}/needy.py, line 2, `import no_such_library`)" in told


def test_a_syntax_error_says_where(folder: Path) -> None:
    (folder / "odd.py").write_text("x = 1\ndef f(:\n")

    told = fails(2, "enqueue", "greet", "--app", "odd")

    assert "SyntaxError: " in told
    assert f"({folder}/odd.py, line 2, `def f(:`)" in told


def test_a_mistake_in_the_applications_settings_says_where(folder: Path) -> None:
    (folder / "wrong.py").write_text("from windlass import Windlass\napp = Windlass('mysql://')\n")

    told = fails(2, "enqueue", "greet", "--app", "wrong")

    assert "Bad option url (argument)" in told
    assert f"({folder}/wrong.py, line 2" in told


def test_a_module_that_exits_is_told_as_any_other_failure(folder: Path) -> None:
    (folder / "leaving.py").write_text("raise SystemExit('bye')\n")

    assert "SystemExit: bye" in fails(2, "enqueue", "greet", "--app", "leaving")


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "GeneratorExit", "asyncio.CancelledError"])
def test_a_module_that_raises_what_means_stop_is_told_as_any_other_failure(
    folder: Path, error: str
) -> None:
    (folder / "stopping.py").write_text(f"import asyncio\nraise {error}('stop')\n")

    told = fails(2, "enqueue", "greet", "--app", "stopping")
    assert f"{error.rpartition('.')[2]}: stop ({folder}/stopping.py, line 2" in told


@pytest.mark.parametrize(("name", "code"), [("enqueue", 130), ("worker", 0)])
def test_ctrl_c_during_the_import_of_the_application_ends_the_command(
    folder: Path, name: str, code: int
) -> None:
    (folder / "slow.py").write_text(
        "import time\nprint('importing', flush=True)\ntry:\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    raise ValueError('of the module')\n"
    )
    arguments = {"enqueue": ["enqueue", "greet"], "worker": ["worker"]}[name]
    with started(command(*arguments, "--app", "slow"), folder) as process:
        process.wait_for("importing")
        process.send(signal.SIGINT)
        assert process.ends() == code
    assert "of the module" not in process.output


def test_a_worker_starts_beside_a_job_file_that_raises_what_means_stop(folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs" / "bad.py").write_text("raise KeyboardInterrupt\n")
    (folder / "jobs" / "good.py").write_text("def run(ctx):\n    return 1\n")
    url = f"sqlite:///{folder}/windlass.db"

    with started(command("worker", "--drain", "--url", url), folder) as process:
        assert process.ends() == 0
    assert f"{folder}/jobs/bad.py:1" in process.wait_for("job file not loaded")
    with started(command("dev", "--url", url), folder) as process:
        process.wait_for("worker started")
        (folder / "jobs" / "bad.py").write_text("def run(ctx):\n    return 2\n")
        process.wait_for("bad  ")
        process.send(signal.SIGINT)
        assert process.ends() == 0
    assert "KeyboardInterrupt" in process.output


def test_another_name_is_suggested(folder: Path, jobs: str) -> None:
    (folder / "other.py").write_text("from jobs import app as queue\napp = 7\n")

    assert fails(2, "enqueue", "x", "--app", "other:main") == (
        "Module 'other' has no 'main': use --app other:queue."
    )
    assert fails(2, "enqueue", "x", "--app", "other") == (
        "other:app is no Windlass but int: use --app other:queue."
    )


def test_a_name_may_be_dotted(folder: Path, jobs: str) -> None:
    (folder / "nested.py").write_text("import jobs\nclass holder:\n    app = jobs.app\n")

    ok("enqueue", "greet", "--app", "nested:holder.app")


@pytest.mark.parametrize(
    ("named", "better"),
    [("jobs.py", "jobs"), ("./shop/jobs.py", "shop.jobs"), ("jobs.py:app", "jobs:app")],
)
def test_a_file_is_not_a_module(named: str, better: str) -> None:
    told = fails(2, "enqueue", "greet", "--app", named)

    assert told.endswith(f"is a file: name its module, as in --app {better}.")


FACTORY = """
from windlass import Windlass

def make_app():
    app = Windlass({url!r})

    @app.job
    async def greet() -> str:
        return "hello"

    return app
"""


def test_a_factory_makes_the_application(folder: Path) -> None:
    own = sqlite(folder / "own.db")
    (folder / "tasks.py").write_text(FACTORY.format(url=own))
    (folder / "windlass.toml").write_text('[windlass]\napp = "tasks:make_app"\n')

    ok("enqueue", "greet")
    ok("enqueue", "greet", "--app", "tasks:make_app", "--url", sqlite(folder / "other.db"))

    assert names_in(folder / "own.db") == ["greet"]
    assert names_in(folder / "other.db") == ["greet"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def make_app(): return 7", "tasks:make_app makes no Windlass but int."),
        ("async def make_app(): ...", "tasks:make_app is async: a factory of an application"),
        ("def make_app(config): ...", "tasks:make_app must make the application without arguments"),
        ("class make_app: ...", "tasks:make_app is no Windlass but type"),
        (
            "def make_app():\n    return 1 / 0",
            "The factory tasks:make_app has failed: ZeroDivisionError: division by zero ({folder}",
        ),
    ],
)
def test_a_factory_that_makes_none(folder: Path, text: str, told: str) -> None:
    (folder / "tasks.py").write_text(text)

    assert told.format(folder=folder) in fails(2, "enqueue", "greet", "--app", "tasks:make_app")


def test_a_dot_where_a_colon_belongs_gets_a_hint(folder: Path, jobs: str) -> None:
    assert fails(2, "enqueue", "greet", "--app", "jobs.app") == (
        "There is no module 'jobs.app', but module 'jobs' has 'app': use --app jobs:app."
    )
