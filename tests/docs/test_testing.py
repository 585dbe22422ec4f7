"""What the page on testing shows is a project whose tests pass, on both stores."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cluster
from tests.fixtures.apps import STORES

PAGE = Path(__file__).parents[2] / "docs/testing.md"
FILE = re.compile(r"^```(?:python|ini)\n# (\S+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("store", STORES)
def test_examples_of_the_page_pass(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = FILE.findall(PAGE.read_text("utf-8"))
    assert len(found) >= 8
    for name, text in found:
        (tmp_path / name).write_text(text)
    environment = dict(os.environ)
    if store == "postgres":
        cluster: Cluster = request.getfixturevalue("pg_cluster")
        environment["WINDLASS_TEST_URL"] = cluster.dsn
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-W", "error"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout
    assert not (tmp_path / "windlass.db").exists()
