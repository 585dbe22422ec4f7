"""What `windlass show` says of children and of their parents, on both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.durable_jobs import make_durable_app
from tests.cli.kit import ok, ok_json, work
from windlass import Windlass


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose runs have children."""
    found = make_durable_app(url)
    yield found
    found.close()


def test_children_are_listed_below_the_steps(url: str, app: Windlass) -> None:
    run = app.enqueue("family", {"count": 12})
    work(app)

    shown = ok("show", run.id, "--url", url)

    assert "children  \n" in shown, "there are more than are shown"
    assert "  … more: --steps shows all" in shown
    assert 'done children {"total": 12, "failed": 1}' in shown
    whole = ok("show", run.id, "--url", url, "--steps")
    assert "children  11 succeeded, 1 failed" in whole
    children = run.children()
    assert all(child.id in whole for child in children)
    listed = ok_json("show", run.id, "--url", url, "--json")["children"]
    assert listed == [
        {"id": child.id, "job": "fussy", "status": child.status.value} for child in children
    ]
    of_child = ok("show", children[2].id, "--url", url)
    assert f"child of  {run.id}" in of_child
    assert "by run" not in of_child


def test_a_child_that_is_held_says_why_it_does_not_start(url: str, app: Windlass) -> None:
    run = app.enqueue("reserved", {"count": 3})
    work(app)

    held = run.children()[2]

    assert "held: as many of its siblings are live as may be" in ok("show", held.id, "--url", url)


def test_a_batch_is_counted(url: str) -> None:
    app = Windlass(url)

    @app.batch(shard_size=4)
    async def odd(unit: int) -> None:
        if unit % 5 == 0:
            raise ValueError("five")

    run = odd.enqueue(units=range(10))
    work(app)
    shown = ok("show", run.id, "--url", url)
    assert "batch  10 of 10 units done, 2 failed; 3 of 3 shards done" in shown
    told = ok_json("show", run.id, "--url", url, "--json")["batch"]
    assert (told["total"], told["succeeded"], told["failed"]) == (10, 8, 2)
    app.close()
