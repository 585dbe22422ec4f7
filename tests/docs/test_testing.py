"""What the page on testing shows is a project whose tests pass, on both stores."""

from pathlib import Path

import pytest

from tests.conftest import Cluster
from tests.fixtures.apps import STORES
from tests.fixtures.inner_pytest import run_pytest
from tests.fixtures.pages import Examples, blocks


@pytest.mark.parametrize("store", STORES)
@pytest.mark.examples("docs/testing.md")
def test_examples_of_the_page_pass(
    store: str, examples: Examples, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    examples.write(tmp_path)
    (settings,) = (block for block in blocks("docs/testing.md") if block.file == "pytest.ini")
    (tmp_path / "pytest.ini").write_text(settings.text)
    environment = {}
    if store == "postgres":
        cluster: Cluster = request.getfixturevalue("pg_cluster")
        environment["WINDLASS_TEST_URL"] = cluster.dsn
    run_pytest(tmp_path, "-pno:asyncio", passed=10, **environment)
    assert not (tmp_path / "windlass.db").exists()
