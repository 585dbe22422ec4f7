"""What the page on testing transactions shows is two projects whose tests pass."""

from pathlib import Path

import pytest

from tests.conftest import Cluster
from tests.fixtures.inner_pytest import run_pytest
from tests.fixtures.pages import Examples


@pytest.mark.examples("docs/testing-transactions.md")
def test_projects_of_the_page_pass(examples: Examples, tmp_path: Path, pg_cluster: Cluster) -> None:
    examples.write(tmp_path)
    run_pytest(tmp_path, "-pno:asyncio", f"--windlass-url={pg_cluster.dsn}", passed=7)
    assert not list(tmp_path.glob("*.db"))
