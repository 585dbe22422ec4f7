"""What the doctor's tests share: a checkup in one call, and workers and runs to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass import Windlass
from windlass.doctor import examine
from windlass.domain.checkup import Finding, Limits, Report, Severity
from windlass.domain.run import Want, WorkerInfo


def checkup(url: str, *, seconds: float = 10.0, full: bool = False, **limits: Any) -> Report:
    """Examine a store, as the command does."""
    app = Windlass(url)
    try:
        return examine(app, Limits(**limits), seconds=seconds, full=full)
    finally:
        app.close()


def of(report: Report, check: str) -> Sequence[Finding]:
    """What one check found."""
    return [finding for finding in report.findings if finding.check == check]


def only(report: Report, check: str) -> Finding:
    """The one thing that a check found."""
    (found,) = of(report, check)
    return found


def bad(report: Report) -> list[str]:
    """The checks that found anything worse than a note, by name."""
    worse = Severity.NOTE.rank
    return [f"{f.check}: {f.text}" for f in report.findings if f.severity.rank > worse]


def make_app(url: str) -> Windlass:
    """An application with jobs in two queues, on a store that has its tables."""
    app = Windlass(url)
    app.migrate()

    @app.job
    async def greet(name: str = "you") -> str:
        return name

    @app.job(queue="mail", timeout="1s")
    async def post() -> None: ...

    rows = [job.spec.row(app.settings.tenant) for job in app.jobs.values()]
    app.store.run(app.store.operations.sync_jobs(rows))
    return app


def hire(app: Windlass, name: str = "w", *, lease: float = 300.0, **fields: Any) -> None:
    """Register a worker that is alive for so long."""
    given: dict[str, Any] = {
        "host": "box", "pid": 7, "version": "1", "queues": None, "jobs": ("greet", "post"),
        "seats": 10,
    }  # fmt: skip
    info = WorkerInfo(id=name, **(given | fields))
    app.store.run(app.store.operations.register(info, lease))


def claim(app: Windlass, name: str = "w", *jobs: str) -> None:
    """Let a worker take what is ready."""
    want = Want(limit=10, jobs=jobs or ("greet", "post"))
    reply = app.store.run(app.store.operations.cycle(name, 1, [], want))
    assert reply.claimed
