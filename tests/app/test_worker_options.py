"""What a worker may be told: as the settings are, and as strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass import BadDuration, BadOption, UsageError, Windlass, Worker, WorkerOptions, parts


@pytest.fixture
def app(tmp_path: Path) -> Windlass:
    """An application that opens nothing."""
    app = Windlass(f"sqlite:///{tmp_path}/never.db", lease="9s", concurrency=7, queues="a,b")

    @app.job
    async def idle() -> None: ...

    return app


def options_of(worker: Worker) -> WorkerOptions:
    return worker.options


def test_worker_has_the_applications_settings(app: Windlass) -> None:
    worker = app.worker()
    options = options_of(worker)
    assert (options.lease, options.renew, options.sweep) == (9.0, 3.0, 1.5)
    assert (options.concurrency, options.queues) == (7, ("a", "b"))
    every = [type(service) for service in parts.services(app)]
    assert [type(service) for service in worker.services] == every
    assert {parts.Sweeper, parts.Scheduler} <= set(every)


def test_worker_may_have_settings_of_its_own(app: Windlass) -> None:
    worker = app.worker(
        poll="250ms", drain=1, threads=2, queues=["c"], services=False, max_crashes=1
    )
    options = options_of(worker)
    assert (options.poll, options.drain, options.threads) == (0.25, 1.0, 2)
    assert (options.queues, options.max_crashes) == (("c",), 1)
    assert worker.services == ()
    assert options_of(app.worker()).threads == 10  # the application's are as they were


def test_new_lease_brings_its_shares(app: Windlass) -> None:
    options = options_of(app.worker(lease="3s"))
    assert (options.lease, options.renew, options.sweep) == (3.0, 1.0, 0.5)
    assert options_of(app.worker(lease="3s", renew="1.5s")).renew == 1.5


def test_bad_settings_are_refused(app: Windlass, subtests: pytest.Subtests) -> None:
    wrong: list[tuple[str, Any]] = [
        ("lease", 0), ("lease", "soon"), ("renew", "10s"), ("concurrency", 0), ("threads", True),
        ("queues", []), ("queues", ["a b"]), ("poll", -1), ("nonsense", 1), ("drain", "x"),
    ]  # fmt: skip
    for option, value in wrong:
        with subtests.test(option, value=value):
            given: Any = {option: value}
            with pytest.raises(BadOption) as caught:
                app.worker(**given)
            assert caught.value.option == option
    with pytest.raises(BadDuration):
        app.worker(resend_after="soon")


def test_worker_needs_a_job(tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/never.db")
    with pytest.raises(UsageError, match="A worker needs at least one job"):
        app.worker()
