"""`windlass approvals`, `approve` and `reject`, on both stores."""

from __future__ import annotations

import getpass
from collections.abc import Iterator

import pytest

from tests.cli.durable_jobs import make_durable_app
from tests.cli.kit import fails, ok, ok_json, work
from windlass import Windlass


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose runs ask people."""
    found = make_durable_app(url)
    yield found
    found.close()


def test_a_run_asks_and_people_answer(url: str, app: Windlass) -> None:
    assert "No run asks" not in ok("migrate", "--url", url)
    assert ok("approvals", "--url", url) == "No run asks for an approval.\n"
    run = app.enqueue("release")
    work(app)

    titles, line = ok("approvals", "--url", url).splitlines()
    assert titles.split() == ["RUN", "JOB", "NAME", "ASKED", "EXPIRES", "QUESTION"]
    assert line.split()[:3] == [run.id, "release", "deploy"]
    assert line.endswith("Deploy to production?")
    (listed,) = ok_json("approvals", "--json", "--url", url)
    assert (listed["run"], listed["name"], listed["job"]) == (run.id, "deploy", "release")
    assert listed["question"] == "Deploy\nto production?"
    shown = ok("show", run.id, "--url", url)
    assert 'waiting for approval "Deploy\\nto production?" until ' in shown
    assert "status    waiting" in shown

    assert ok("approve", run.id[:13], "--as", "ann", "--url", url) == (
        f"{run.id} approved, by ann\n"
    )
    assert ok("approve", run.id, "deploy", "--as", "ann", "--url", url).endswith("by ann\n")
    refused = fails(4, "reject", run.id, "deploy", "--url", url)
    assert "was approved by ann before: the first answer counts." in refused
    work(app)
    assert [one["name"] for one in ok_json("approvals", "--json", "--url", url)] == ["approval"]
    fails(3, "approve", run.id, "other", "--url", url)

    told = ok_json("reject", run.id, "--comment", "too early", "--json", "--url", url)
    assert (told["run"], told["approved"], told["comment"]) == (run.id, False, "too early")
    assert told["by"] == getpass.getuser()
    work(app)
    assert run.refresh().result == {"first": "ann", "second": False, "why": "too early"}
    assert 'done approval "Announce it?"' in ok("show", run.id, "--url", url)
    fails(2, "approve", run.id, "--as", "", "--url", url)
