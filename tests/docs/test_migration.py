"""What the pages for those who come from elsewhere show of Windlass works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.pages import Examples
from windlass import SyncContext, Windlass
from windlass.testing import drain, isolated

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("scheduled", marks=pytest.mark.examples("docs/from-celery.md", "tasks.py")),
        pytest.param("queued", marks=pytest.mark.examples("docs/from-rq.md", "tasks.py")),
        pytest.param(
            "scheduled", marks=pytest.mark.examples("docs/from-procrastinate.md", "tasks.py")
        ),
    ],
    ids=["celery", "rq", "procrastinate"],
)
def test_our_side_of_the_page_works(examples: Examples, status: str, tmp_path: Path) -> None:
    examples.write(tmp_path)

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=50,
        )  # fmt: skip
        return done.stdout

    assert run("tasks.py").split()[0] == status
    (made,) = json.loads(run("-m", "windlass", "--app", "tasks", "runs", "--json"))
    run("-m", "windlass", "--app", "tasks", "reschedule", made["id"], "--delay", "0")
    run("-m", "windlass", "--app", "tasks", "worker", "--drain")
    done = json.loads(run("-m", "windlass", "--app", "tasks", "show", made["id"], "--json"))
    assert done["result"].endswith("sent to ada@example.org")


@pytest.mark.examples("docs/from-celery.md", "Words")
def test_what_comes_next_is_enqueued_once(examples: Examples) -> None:
    with isolated(Windlass()) as app:

        @app.job
        def notify(order: int) -> None: ...

        @app.job
        def fulfil(ctx: SyncContext, order: int) -> None:
            examples.run("Words", notify=notify, ctx=ctx, order=order)
            if ctx.attempt == 1:
                raise ConnectionError

        run = fulfil.enqueue(7)
        done = drain(app, with_scheduled=True).succeeded
        assert sorted(one.job for one in done) == ["fulfil", "notify"]
        assert run.refresh().attempt == 2


@pytest.mark.parametrize("page", ["from-celery", "from-rq", "from-procrastinate"])
def test_page_has_words_and_steps(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    for heading in ("## Side by side", "## Words", "## Move step by step"):
        assert heading in text
