"""The page about the checkup names every check and every exit code."""

from __future__ import annotations

import re
from pathlib import Path

from tests.doctor.kit import checkup, make_app
from windlass.cli.doctor import ERRORS, WARNINGS
from windlass.domain.checkup import Severity

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text("utf-8")


def test_every_check_is_on_the_page(url: str) -> None:
    make_app(url).close()
    names = {finding.check for finding in checkup(url).findings}
    table = PAGE.partition("## What is looked at")[2]
    listed = {
        name
        for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
        for name in row.split(", ")
    }

    assert names <= listed


def test_every_severity_and_code_is_on_the_page() -> None:
    rows = re.findall(r"^\| (\w+) \|", PAGE, re.MULTILINE)

    assert {severity.value for severity in Severity} <= {*rows}
    assert {"0", "2", str(WARNINGS), str(ERRORS)} <= {*rows}
