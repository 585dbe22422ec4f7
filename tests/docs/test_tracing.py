"""The page on Sentry and OpenTelemetry, run with both: in its own tests, and in real workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.inner_pytest import run_pytest
from tests.fixtures.pages import Examples

PAGE = "docs/tracing.md"
MODULES = ("tasks.py", "telemetry.py", "errors.py")

# Set up as in production, but that everything goes to a file. Both write in the process of the
# attempt: of jobs in threads, on the loop, and in child processes.
SETUP = """
import json, os, sentry_sdk
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from sentry_sdk.transport import Transport


def write(kind, said):
    with open("said", "a") as file:
        file.write(json.dumps({"kind": kind, "pid": os.getpid(), **said}) + "\\n")


class ToFile(Transport):
    def capture_envelope(self, envelope):
        event = envelope.get_event()
        if event is not None:
            error = event["exception"]["values"][-1] if "exception" in event else {}
            write("event", {"tags": event.get("tags"), "error": error.get("type")})


class SpansToFile(SpanExporter):
    def export(self, spans):
        for span in spans:
            write("span", {
                "trace": format(span.context.trace_id, "032x"),
                "parent": span.parent and format(span.parent.span_id, "016x"),
                "run": span.attributes["windlass.run"],
                "status": span.status.status_code.name,
            })
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(SpansToFile()))
trace.set_tracer_provider(provider)
sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=ToFile())

"""
JOBS = """

@app.job(max_attempts=2, retry=Retry.fixed(0, jitter=0))
def in_thread() -> None:
    raise KeyError("no such thing")


@app.job(max_attempts=2, retry=Retry.fixed(0, jitter=0))
async def on_loop() -> None:
    raise KeyError("no such thing")


@app.job(max_attempts=2, retry=Retry.fixed(0, jitter=0), executor="process")
def in_child() -> None:
    raise KeyError("no such thing")
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture
def project(examples: Examples, tmp_path: Path) -> Path:
    """The files of the page."""
    examples.write(tmp_path)
    return tmp_path


@pytest.mark.examples(PAGE)
def test_project_of_the_page_passes(project: Path) -> None:
    run_pytest(project, "-pno:asyncio", passed=3)


@pytest.mark.examples(PAGE, *MODULES)
def test_real_workers_report_the_last_error_once(project: Path, subtests: pytest.Subtests) -> None:
    page = (project / "tasks.py").read_text()
    (project / "tasks.py").write_text(SETUP + page + JOBS)
    names = ("in_thread", "on_loop", "in_child")
    runs = windlass(
        project, "-c", f"import tasks\nfor name in {names}:"
        f" print(getattr(tasks, name).using(trace='00-{TRACE}-{PARENT}-01').enqueue().id)",
    ).split()  # fmt: skip
    windlass(project, "-m", "windlass", "worker", "--app", "tasks:app", "--drain")
    said: list[dict[str, Any]] = [
        json.loads(line) for line in (project / "said").read_text().splitlines()
    ]
    spans = [one for one in said if one["kind"] == "span"]
    events = [one for one in said if one["kind"] == "event"]
    assert (len(spans), len(events)) == (2 * len(names), len(names))
    for job, run in zip(names, runs, strict=True):
        with subtests.test(job):
            own = [span for span in spans if span["run"] == run]
            assert [(s["trace"], s["parent"]) for s in own] == 2 * [(TRACE, PARENT)]
            assert [s["status"] for s in own] == ["UNSET", "ERROR"]
            (event,) = [e for e in events if e["tags"]["windlass.run"] == run]
            assert event["error"] == "KeyError"
            tags = {"job": job, "run": run, "attempt": 2, "trace": f"00-{TRACE}-{PARENT}-01"}
            assert event["tags"] == {f"windlass.{name}": value for name, value in tags.items()}


def windlass(folder: Path, *command: str) -> str:
    """Run a program, and return what it prints."""
    environment = {**os.environ, "WINDLASS_URL": f"sqlite:///{folder}/windlass.db"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
