"""Settings: where they come from, which source wins, and what is refused."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass.config import Settings
from windlass.duration import parse_duration
from windlass.errors import BadOption
from windlass.store.sqlite.files import parse_path


def load(directory: Path, environ: dict[str, str] | None = None, **options: Any) -> Settings:
    return Settings.load(environ=environ or {}, directory=directory, **options)


def write(directory: Path, text: str) -> Path:
    path = directory / "windlass.toml"
    path.write_text(text, "utf-8")
    return path


def test_defaults(tmp_path: Path) -> None:
    assert (
        load(tmp_path)
        == Settings()
        == Settings(
            url="sqlite:///windlass.db",
            app=None,
            lease=30.0,
            renew=10.0,
            sweep=5.0,
            drain=25.0,
            max_crashes=3,
            max_attempts=5,
            max_steps=1024,
            run_logs=1_000,
            poll=1.0,
            concurrency=100,
            threads=10,
            queues=None,
            tenant="default",
            payload_limit=1024 * 1024,
            log="console",
            log_level="INFO",
        )
    )


def test_argument_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    write(tmp_path, "[windlass]\nthreads = 2\nconcurrency = 2\npoll = '2s'\n")
    environ = {"WINDLASS_THREADS": "3", "WINDLASS_CONCURRENCY": "3"}
    settings = load(tmp_path, environ, threads=4)
    assert (settings.threads, settings.concurrency, settings.poll) == (4, 3, 2.0)
    assert settings.max_attempts == 5


def test_none_and_empty_count_as_absent(tmp_path: Path) -> None:
    write(tmp_path, "[windlass]\nthreads = 2\nconcurrency = 7\n")
    settings = load(tmp_path, {"WINDLASS_THREADS": " ", "WINDLASS_APP": ""}, concurrency=None)
    assert (settings.threads, settings.concurrency, settings.app) == (2, 7, None)


def test_the_nearest_file_upwards_is_read_alone(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    write(tmp_path, "[windlass]\nthreads = 2\npoll = 9\n")
    assert load(deep).threads == 2
    write(tmp_path / "a", "[windlass]\nthreads = 3\n")
    assert (load(deep).threads, load(deep).poll) == (3, 1.0)


def test_other_tables_and_an_absent_table_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, "[tool]\nx = 1\n")
    assert load(tmp_path) == Settings(
        jobs=tmp_path / "jobs", url=f"sqlite:///{tmp_path}/windlass.db"
    )


def test_the_folder_of_job_files_is_beside_the_file_that_names_it(tmp_path: Path) -> None:
    deep = tmp_path / "a"
    deep.mkdir()
    assert load(deep).jobs == Path("jobs")
    write(tmp_path, "[windlass]\nthreads = 2\n")
    assert load(deep).jobs == tmp_path / "jobs"
    write(tmp_path, "[windlass]\njobs = 'work'\n")
    assert load(deep).jobs == tmp_path / "work"
    assert load(deep, {"WINDLASS_JOBS": "here"}).jobs == Path("here")
    assert load(deep, jobs=deep).jobs == deep


@pytest.mark.parametrize(
    ("written", "file"),
    [
        ("threads = 2", "windlass.db"),
        ("url = 'sqlite:///data/my%20jobs.db'", "data/my jobs.db"),
        ("url = 'sqlite:///../other.db'", "../other.db"),
        ("url = 'sqlite:////srv/jobs.db'", "/srv/jobs.db"),
    ],
)
def test_the_store_is_found_from_the_file_that_names_it(
    tmp_path: Path, written: str, file: str
) -> None:
    project = tmp_path / "a 100% odd name"
    deep = project / "deep"
    deep.mkdir(parents=True)
    write(project, f"[windlass]\n{written}\n")
    assert parse_path(load(deep).url) == (project / file).resolve()
    assert load(deep, {"WINDLASS_URL": "sqlite:///here.db"}).url == "sqlite:///here.db"
    assert load(deep, url="sqlite:///here.db").url == "sqlite:///here.db"


def test_other_urls_in_the_file_stay_as_they_are(tmp_path: Path) -> None:
    for url in ("postgresql://h/db", "sqlite:///:memory:", "sqlite:///"):
        write(tmp_path, f"[windlass]\nurl = '{url}'\n")
        assert load(tmp_path).url == url


@pytest.mark.parametrize("given", ["", " ", 5, ["jobs"], "a\0b"])
def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path, given: object) -> None:
    with pytest.raises(BadOption, match="is not the path of a folder"):
        load(tmp_path, jobs=given)


def test_the_process_is_asked_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "[windlass]\npoll = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_THREADS", "12")
    settings = Settings.load()
    assert (settings.poll, settings.threads) == (3.0, 12)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("url", "postgresql://user:pw@host/db", "postgresql://user:pw@host/db"),
        ("url", "sqlite:////srv/my jobs.db", "sqlite:////srv/my jobs.db"),
        ("app", "shop.jobs:app", "shop.jobs:app"),
        ("lease", "1m", 60.0),
        ("lease", 45, 45.0),
        ("drain", "0", 0.0),
        ("drain", timedelta(minutes=1), 60.0),
        ("max_attempts", "7", 7),
        ("max_steps", "5000", 5000),
        ("run_logs", "0", 0),
        ("queues", "mail, reports ,x", ("mail", "reports", "x")),
        ("queues", ["mail", "reports"], ("mail", "reports")),
        ("queues", "mail", ("mail",)),
        ("tenant", "acme-2.eu_x", "acme-2.eu_x"),
        ("payload_limit", 2048, 2048),
        ("log", "JSON", "json"),
        ("log_level", "debug", "DEBUG"),
    ],
)
def test_values_are_read(tmp_path: Path, name: str, value: Any, expected: Any) -> None:
    assert getattr(load(tmp_path, **{name: value}), name) == expected


def test_renew_and_sweep_follow_the_lease_unless_set(tmp_path: Path) -> None:
    settings = load(tmp_path, lease="60s")
    assert (settings.renew, settings.sweep) == (20.0, 10.0)
    settings = load(tmp_path, lease="60s", renew="5s", sweep="7s")
    assert (settings.renew, settings.sweep) == (5.0, 7.0)


BAD = [
    ("url", "mysql://x", "a URL such as sqlite:///windlass.db or postgresql://"),
    ("url", "windlass.db", "a URL such as"),
    ("app", "shop jobs", "a place such as myapp.jobs:app"),
    ("lease", "soon", "is not a number with a unit"),
    ("lease", "-5s", "it is negative"),
    ("lease", "0", "a duration of at least 100 ms"),
    ("poll", "0s", "a duration of at least 10 ms"),
    ("max_attempts", "0", "a whole number from 1 to 1,000,000"),
    ("max_attempts", "many", "a whole number from 1"),
    ("max_steps", "0", "a whole number from 1 to 100,000"),
    ("threads", "1.5", "a whole number from 1"),
    ("concurrency", "9" * 30, "a whole number from 1"),
    ("queues", "a,,b", "the name of a queue"),
    ("queues", "a b", "the name of a queue"),
    ("tenant", "../other", "letters, digits"),
    ("tenant", "a\u200bb", "letters, digits"),
    ("tenant", "x" * 101, "letters, digits"),
    ("payload_limit", "0", "a whole number from 1 to 1,048,576"),
    ("log", "xml", "one of console, json"),
    ("log_level", "LOUD", "one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_bad_values_name_key_source_and_what_is_allowed(
    tmp_path: Path, name: str, value: str, allowed: str
) -> None:
    variable = f"WINDLASS_{name.upper()}"
    file = write(tmp_path, f"[windlass]\n{name} = {value!r}\n")
    cases: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("argument", {}, {name: value}),
        (f"environment variable {variable}", {variable: value}, {}),
        (f"file {file}", {}, {}),
    ]
    for source, environ, options in cases:
        with pytest.raises(BadOption) as caught:
            load(tmp_path, environ, **options)
        assert (caught.value.option, caught.value.source) == (name, source)
        assert allowed in str(caught.value)
        assert f"{name} ({source})" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", True),
        ("threads", 2.0),
        ("lease", True),
        ("lease", [30]),
        ("lease", float("nan")),
        ("url", 5),
        ("app", ["x"]),
        ("queues", []),
        ("queues", 5),
        ("queues", [5]),
        ("log", 1),
        ("tenant", ""),
    ],
)
def test_values_of_wrong_types_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(BadOption) as caught:
        load(tmp_path, **{name: value})
    assert caught.value.option == name


def test_a_password_in_a_bad_url_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(BadOption) as caught:
        load(tmp_path, url="mysql://root:hunter2@host/db")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"Bad option leese \(argument\).*lease"):
        load(tmp_path, leese=5)
    with pytest.raises(BadOption, match="Bad option leese"):
        load(tmp_path, leese=None)
    write(tmp_path, "[windlass]\nleese = 5\n")
    with pytest.raises(BadOption, match=r"Bad option leese \(file "):
        load(tmp_path)


def test_unknown_variables_are_none_of_our_business(tmp_path: Path) -> None:
    assert load(tmp_path, {"WINDLASS_TEST_PG_DSN": "x", "WINDLASS_": "y"}) == Settings()


@pytest.mark.parametrize("text", ["[windlass", "windlass = 5", "\xff"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "windlass.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadOption) as caught:
        load(tmp_path)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("options", "name", "why"),
    [
        ({"renew": "30s"}, "renew", "30 s is too long: it must be at most half of the lease"),
        ({"renew": "15.1s"}, "renew", "15.1 s is too long: it must be at most half of the lease"),
        ({"renew": "20s", "lease": "10s"}, "renew", "lease, which is 10 s"),
        ({"sweep": "31s"}, "sweep", "31 s is too long: it must be shorter than the lease"),
    ],
)
def test_times_that_contradict_each_other_are_refused(
    tmp_path: Path, options: dict[str, Any], name: str, why: str
) -> None:
    with pytest.raises(BadOption, match=why) as caught:
        load(tmp_path, **options)
    assert (caught.value.option, caught.value.source) == (name, "argument")


def test_renewal_may_take_half_of_the_lease(tmp_path: Path) -> None:
    assert load(tmp_path, renew="15s").renew == 15.0


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().lease = parse_duration(5)  # type: ignore[misc]
