"""The page on artifacts: its example, run."""

from __future__ import annotations

import pytest

from tests.docs.conftest import Load
from windlass.testing import drain


@pytest.mark.examples("docs/artifacts.md", "reports.py")
def test_a_report_and_its_reader(load: Load) -> None:
    reports = load("reports.py")
    made = reports.make_report.enqueue(rows=1000)
    drain(reports.app)
    report = made.refresh().result
    assert (report.name, report.content_type) == ("report.csv", "text/csv")
    read = reports.first_line.enqueue(report=report)
    drain(reports.app)
    assert read.refresh().result == "row 0"
