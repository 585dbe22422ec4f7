"""`windlass stats`: how many runs there are, and how deep the queues, on both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.kit import fails, make_app, ok, ok_json
from windlass import Windlass
from windlass.cli.stats import _number


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application with a few runs."""
    found = make_app(url)
    found.migrate()
    yield found
    found.close()


def fill(app: Windlass) -> None:
    job = app.jobs["greet"]
    app.enqueue_many([job.using(queue="mail").request(name="x") for _ in range(2)])
    job.using(queue="slow", delay="1h").enqueue(name="x")
    job.using(queue="slow").enqueue(name="x").cancel()


def test_no_runs_at_all(url: str, app: Windlass) -> None:
    assert ok("stats", "--url", url) == "There are no runs: make one with `windlass enqueue`.\n"


def test_statuses_and_queues(url: str, app: Windlass) -> None:
    fill(app)
    lines = [line.split() for line in ok("stats", "--url", url).splitlines()]

    statuses, queues = lines[: lines.index([])], lines[lines.index([]) + 1 :]
    assert statuses[0] == ["STATUS", "RUNS"]
    assert sorted(statuses[1:]) == [["canceled", "1"], ["queued", "2"], ["scheduled", "1"]]
    assert queues[0] == ["QUEUE", "READY", "RUNNING", "SCHEDULED", "WAITING", "PAUSED", "OLDEST"]
    assert queues[1][:6] == ["mail", "2", "0", "0", "0", "0"]
    assert queues[1][7] in ("ms", "s")
    assert queues[2] == ["slow", "0", "0", "1", "0", "0"]


def test_by_queue(url: str, app: Windlass) -> None:
    fill(app)
    lines = [line.split() for line in ok("stats", "--url", url, "--by", "queue").splitlines()]
    assert lines == [
        ["QUEUE", "SCHEDULED", "QUEUED", "RUNNING", "WAITING", "PAUSED", "FAILED", "CANCELED"],
        ["mail", "2"],
        ["slow", "1", "1"],
    ]


def test_as_json(url: str, app: Windlass) -> None:
    fill(app)
    found = ok_json("stats", "--url", url, "--json")
    assert {row["name"]: row["count"] for row in found["rows"]} == {
        "queued": 2, "scheduled": 1, "canceled": 1,
    }  # fmt: skip
    assert [(q["name"], q["ready"], q["exact"]) for q in found["queues"]] == [
        ("mail", 2, True), ("slow", 0, True),
    ]  # fmt: skip
    assert found["queues"][0]["age"] >= 0
    jobs = ok_json("stats", "--url", url, "--json", "--by", "job")
    assert "queues" not in jobs


def test_wrong_words_are_refused(url: str, app: Windlass) -> None:
    assert "'color' is not one of" in fails(2, "stats", "--url", url, "--by", "color")


@pytest.mark.parametrize(
    ("count", "exact", "text"),
    [(0, True, "0"), (1234, True, "1,234"), (12345, False, "~12,300"), (987, False, "~987")],
)
def test_estimates_are_marked_and_rounded(count: int, exact: bool, text: str) -> None:
    assert _number(count, exact) == text
