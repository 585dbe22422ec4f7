"""The page about logs of runs."""

from __future__ import annotations

import pytest

from tests.docs.conftest import Load
from windlass.testing import drain


@pytest.mark.examples("docs/logs.md", "orders.py")
def test_lines_of_the_example_are_kept(load: Load) -> None:
    page = load("orders.py")
    run = page.bill.enqueue(order=7)
    drain(page.app).check()
    assert [(line.level, line.logger, line.message, line.fields) for line in run.logs()] == [
        ("INFO", "windlass.run", "billing", {"order": 7}),
        ("WARNING", "shop", "the card of order 7 expires soon", {}),
    ]
