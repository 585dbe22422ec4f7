"""What `windlass show` says of runs that come after each other; `enqueue --after`."""

from __future__ import annotations

from tests.cli.durable_jobs import make_durable_app
from tests.cli.kit import introduce, ok, ok_json
from windlass import Windlass


def test_both_directions_are_shown(url: str) -> None:
    app: Windlass = make_durable_app(url)
    first = app.enqueue("family", {"count": 1})
    introduce(app)
    made = ok(
        "enqueue", "family", "count=2", "--after", first.id, "--after-failure", "run", "--url", url
    )
    follower = made.strip()

    assert f"before    {follower}, family, scheduled" in ok("show", first.id, "--url", url)
    assert f"after     {first.id}, family, queued" in ok("show", follower, "--url", url)
    document = ok_json("show", follower, "--url", url, "--json")
    assert document["after"] == [{"id": first.id, "job": "family", "status": "queued"}]
    assert document["followers"] == []
    app.close()
