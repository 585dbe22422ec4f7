"""What a job says once of all its runs: tags, expires, deadline, unique, key_ttl."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import BadDuration, BadOption, Router, Windlass
from windlass.domain.run import RunDefaults

GIVEN: dict[str, Any] = {
    "tags": ["nightly", "nightly", "slow"], "expires": "1h", "deadline": "2h",
    "unique": "live", "key_ttl": "7d",
}  # fmt: skip


def define(app: Windlass) -> Any:
    @app.job(**GIVEN)
    async def report(n: int = 0) -> None: ...

    return report


def lengths(run: Any) -> tuple[timedelta | None, timedelta | None]:
    since = run.created_at
    until = (run.record.expires_at, run.record.deadline_at)
    return tuple(None if at is None else at - since for at in until)  # type: ignore[return-value]


def test_runs_have_what_their_job_says(app: Windlass) -> None:
    report = define(app)

    run = report.enqueue()

    assert run.tags == ("nightly", "slow")
    assert lengths(run) == (timedelta(hours=1), timedelta(hours=2))
    assert (run.key, run.record.options) == (None, None)  # the rest is for runs with a key
    assert [found.id for found in app.list(tag="slow")] == [run.id]


def test_what_an_enqueue_says_counts_more(app: Windlass) -> None:
    report = define(app)
    at = datetime(2999, 1, 1, tzinfo=UTC)

    other = report.using(tags=["own"], expires="5m", deadline=at).enqueue()
    none = report.using(tags=(), expires=None, deadline=None).enqueue()

    assert (other.tags, lengths(other)[0]) == (("own",), timedelta(minutes=5))
    assert other.record.deadline_at == at
    assert (none.tags, lengths(none)) == ((), (None, None))


def test_a_key_is_as_unique_as_the_job_says(app: Windlass) -> None:
    report = define(app)
    first = report.using(key="k").enqueue()
    assert report.using(key="k").enqueue().id == first.id

    first.cancel()
    second = report.using(key="k").enqueue()
    assert second.id != first.id  # unique="live": the key was free

    kept = report.using(key="other", unique=None, key_ttl=None).enqueue()
    kept.cancel()
    assert report.using(unique=None).using(key="other").enqueue().id == kept.id
    assert report.using(key="k").request().using.key_ttl == 7 * 86400
    assert report.using(key="k", key_ttl="1h").request().using.key_ttl == 3600
    assert report.using(key_ttl=None).using(key="k").request().using.key_ttl is None
    with pytest.raises(BadOption, match="unique"):
        report.using(unique="live")  # said for this run, and it has no key


def test_runs_by_name_have_it_too_wherever_they_are_made(app: Windlass, url: str) -> None:
    define(app)
    app.store.run(app.store.operations.sync_jobs([s.row("default") for s in app.jobs.specs()]))
    other = Windlass(url)
    for there in (app, other):
        run = there.enqueue("report")
        assert (run.tags, lengths(run)[0]) == (("nightly", "slow"), timedelta(hours=1))
        own = there.enqueue("report", tags=["own"], expires=None)
        assert (own.tags, lengths(own)[0]) == (("own",), None)
        (many,) = there.enqueue_many([("report", {"n": 1})])
        assert many.tags == ("nightly", "slow")
    stored = other.jobs.look_up("report")
    other.close()
    assert stored is not None
    assert stored.to_dict()["defaults"] == {
        "tags": ("nightly", "slow"), "expires": 3600.0, "deadline": 7200.0, "unique": "live",
        "key_ttl": 604800.0,
    }  # fmt: skip


def test_runs_of_schedules_have_it_too(app: Windlass) -> None:
    report = define(app)
    plain = app.schedules.put(report, key="a", interval="1h")
    tagged = app.schedules.put(report.using(tags=["own"]), key="b", interval="1h")

    first, second = app.schedules.trigger(plain.id), app.schedules.trigger(tagged.id)

    assert first is not None
    assert second is not None
    assert (first.tags, second.tags) == (("nightly", "slow"), ("own",))
    assert first.record.expires_at is not None


def test_a_router_has_defaults_for_its_jobs(app: Windlass) -> None:
    router = Router(tags=["mail"], expires="1h")

    @router.job
    def one() -> None: ...

    @router.job(tags=["own"], expires=None)
    def two() -> None: ...

    app.include(router)

    assert (one.enqueue().tags, two.enqueue().tags) == (("mail",), ("own",))
    assert one.spec.defaults == RunDefaults(tags=("mail",), expires=3600.0)
    assert two.spec.defaults == RunDefaults(tags=("own",))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tags", "text"),
        ("tags", [""]),
        ("expires", datetime(2999, 1, 1, tzinfo=UTC)),
        ("deadline", datetime(2999, 1, 1, tzinfo=UTC)),
        ("unique", "always"),
        ("expires", "soon"),
        ("key_ttl", -1),
    ],
)
def test_mistakes_are_told_when_the_job_is_defined(app: Windlass, option: str, value: Any) -> None:
    options: Any = {option: value}
    with pytest.raises((BadOption, BadDuration)):

        @app.job(**options)
        def wrong() -> None: ...

    with pytest.raises((BadOption, BadDuration)):
        Router(**options)
