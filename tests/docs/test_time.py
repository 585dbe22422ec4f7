"""What the page on time says is what the code does."""

import re
from pathlib import Path

import pytest

from tests.fixtures.pages import Examples
from tools import make_docs
from windlass.domain.scheduling.catchup import DEFAULT_MAX, CatchUpMode
from windlass.domain.scheduling.cron import ALIASES, Cron
from windlass.domain.scheduling.definition import COUNTED, GRACE, LISTED, ON_TIME
from windlass.domain.scheduling.rows import Overlap
from windlass.domain.scheduling.walltime import LONGEST_GAP
from windlass.errors import BadOption

TEXT = make_docs.TIME_PAGE.read_text("utf-8")
PLAIN = " ".join(TEXT.split())


def test_table_of_clock_changes_is_made_from_the_code() -> None:
    assert make_docs.time_page() == TEXT


def test_table_has_the_zones_that_matter() -> None:
    zones = {zone for zone, _, _ in make_docs.CHANGES}
    assert len(zones) >= 12
    assert zones >= {"Australia/Lord_Howe", "Africa/Cairo", "Africa/Casablanca", "Pacific/Apia"}


def test_lost_table_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "time.md"
    page.write_text("# Time\n")
    monkeypatch.setattr(make_docs, "TIME_PAGE", page)
    with pytest.raises(SystemExit):
        make_docs.time_page()


@pytest.mark.examples("docs/time.md")
def test_its_example_runs(examples: Examples) -> None:
    for name in examples:
        examples.run(name)


def test_its_expressions_are_understood_or_refused_as_it_says() -> None:
    quoted = re.findall(r"`([^`\n]+ [^`\n]+ [^`\n]+ [^`\n]+ [^`\n]+)`", TEXT)
    expressions = [text for text in quoted if re.fullmatch(r"[-\w*/,#]+( [-\w*/,#]+){4}", text)]
    assert len(expressions) > 20
    for expression in set(expressions) - {"0 0 31 2 *"}:
        Cron.parse(expression)
    for refused in ("0 0 31 2 *", "*/90 * * * *"):
        with pytest.raises(BadOption):
            Cron.parse(refused)
    assert all(f"`{alias}`" in TEXT for alias in ALIASES)


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"within {ON_TIME.seconds} s is on time" in PLAIN
    assert GRACE.seconds == 60
    assert "at most a minute late" in PLAIN
    assert f"({DEFAULT_MAX} unless you say otherwise)" in PLAIN
    assert f"counted up to {COUNTED:,} " in PLAIN
    assert f"The newest {LISTED} are listed" in PLAIN
    assert LONGEST_GAP.seconds == 3 * 3600
    assert "more than three hours is not made up" in PLAIN
    assert all(f"| `{policy.value}`" in TEXT for policy in [*CatchUpMode, *Overlap])
