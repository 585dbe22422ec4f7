"""`windlass doctor`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.kit import fails, make_app, ok, run


@pytest.fixture
def url(folder: Path) -> str:
    """A file that has its tables."""
    found = f"sqlite:///{folder}/windlass.db"
    app = make_app(found)
    app.migrate()
    app.close()
    return found


def test_nothing_worse_than_a_note_ends_with_0(url: str) -> None:
    shown = ok("doctor", "--url", url)

    assert shown.startswith(f"store  {url}\n")
    assert "\nok       schema" in shown
    assert "\nnote     workers" in shown
    assert "-> Start `windlass worker`." in shown
    assert "\x1b" not in shown
    assert shown.endswith(" ok, 1 note, 0 warning, 0 error.\n")


def test_warnings_end_with_1(url: str) -> None:
    app = make_app(url)
    app.enqueue("greet")
    app.close()

    result = run("doctor", "--url", url)

    assert result.exit_code == 1
    assert "\nwarning  workers" in result.stdout
    assert result.stderr == ""


def test_errors_end_with_6_and_what_builds_on_them_is_left_out(folder: Path) -> None:
    result = run("doctor", "--url", "sqlite:///nowhere.db")

    assert result.exit_code == 6
    assert f"error    file    There is no file {folder}/nowhere.db." in result.stdout
    assert "Not looked at, because of file: store, schema, log, " in result.stdout
    assert not (folder / "nowhere.db").exists()


def test_json_has_the_same(url: str) -> None:
    report = json.loads(ok("doctor", "--url", url, "--json"))

    assert report["store"] == url
    assert report["worst"] == "note"
    names = [finding["check"] for finding in report["findings"]]
    assert {"store", "schema", "durability", "disk", "workers", "queues", "schedules"} <= {*names}
    (workers,) = [f for f in report["findings"] if f["check"] == "workers"]
    assert workers == {
        "check": "workers",
        "severity": "note",
        "text": "No worker is alive; nothing waits for one.",
        "advice": "Start `windlass worker`.",
        "made": True,
    }


def test_a_url_that_cannot_be_read_is_wrong_usage() -> None:
    assert "url" in fails(2, "doctor", "--url", "sqlite:/one-slash.db")


def test_a_server_that_is_not_there_is_an_error_not_a_traceback() -> None:
    result = run("doctor", "--url", "postgresql://nobody@127.0.0.1:1/x")

    assert result.exit_code == 6
    assert "cannot be reached" in result.stdout
