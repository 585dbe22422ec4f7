"""`windlass queues` and `windlass jobs pause`, on both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.kit import fails, make_app, ok, ok_json
from windlass import Windlass


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application with a run that waits."""
    found = make_app(url)
    found.migrate()
    found.jobs["greet"].using(queue="mail").enqueue(name="x")
    yield found
    found.close()


def test_queues_are_paused_shown_and_resumed(url: str, app: Windlass) -> None:
    why = ("--as", "ann", "--reason", "the relay is down")
    assert "queue mail paused since 20" in ok("queues", "pause", "mail", *why, "--url", url)
    assert "by ann" in ok("queues", "pause", "mail", "--as", "bob", "--url", url)
    ok("jobs", "pause", "greet", "--as", "bob", "--url", url)

    for command in (("queues", "list"), ("stats",)):
        shown = ok(*command, "--url", url)
        assert "queue mail is paused since 20" in shown
        assert "by ann: the relay is down\n" in shown
        assert "job greet is paused since 20" in shown
        found = ok_json(*command, "--json", "--url", url)
        assert found["queues"][0]["pause"]["by"] == "ann"
        assert [pause["name"] for pause in found["pauses"]] == ["mail", "greet"]
    assert "queue mail" in ok("audit", "--queue", "mail", "--url", url)
    assert "job greet" in ok("audit", "--job", "greet", "--by", "bob", "--url", url)
    assert ok("audit", "--queue", "other", "--url", url) == ""

    assert ok("queues", "resume", "mail", "--url", url) == "queue mail resumed\n"
    assert ok("queues", "resume", "mail", "--url", url) == "queue mail was not paused\n"
    assert ok("jobs", "resume", "greet", "--url", url) == "job greet resumed\n"
    assert "paused since" not in ok("queues", "list", "--url", url)


def test_what_is_no_name_is_refused(url: str, app: Windlass) -> None:
    assert "not a name" in fails(2, "queues", "pause", "two words", "--url", url)
