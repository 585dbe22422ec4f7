"""An agent's worker is killed in the middle of a tool call: the example, on each store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.apps import url
from windlass import Windlass
from windlass.domain.event import AttemptOutcome

__all__ = ["url"]

EXAMPLE = Path(__file__).parents[2] / "examples/durable_agent.py"


@pytest.mark.timeout(120)  # four processes, each of which imports Pydantic AI
def test_an_agent_that_is_killed_in_a_tool_goes_on_and_asks_its_model_nothing_twice(
    url: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        cwd=tmp_path,
        env={**os.environ, "WINDLASS_URL": url},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "killed in the middle of refund, after 2 model requests\n"
        "succeeded: Done: order 3 is refunded.\n"
        "3 x model request\n1 x find_order\n2 x refund\n"
    )
    app = Windlass(url)
    (run,) = app.list()
    steps = {step.path.partition("#")[0]: step.attempt for step in run.steps()}
    requests = [step.attempt for step in run.steps() if ".model_request" in step.path]
    app.close()
    assert [each.outcome for each in run.attempts] == [
        AttemptOutcome.CRASHED,
        AttemptOutcome.SUCCEEDED,
    ]
    assert sorted(requests) == [1, 1, 2], "each request is recorded once, by who made it"
    assert (steps["support.tool.find_order"], steps["support.tool.refund"]) == (1, 2)
