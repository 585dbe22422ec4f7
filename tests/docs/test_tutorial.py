"""Pages that are followed word by word, by somebody who types their commands."""

from pathlib import Path

import pytest

from tests.docs.session import Session
from tests.fixtures.pages import Examples


@pytest.mark.timeout(240)  # some twenty processes, one after the other
@pytest.mark.examples("docs/tutorial.md")
def test_every_step_of_the_tutorial_works(examples: Examples, tmp_path: Path) -> None:
    session = Session(tmp_path, examples)
    session.follow("docs/tutorial.md")
    assert session.commands >= 15


@pytest.mark.timeout(120)
@pytest.mark.examples("docs/layout.md")
def test_package_of_the_page_on_layout_works(examples: Examples, tmp_path: Path) -> None:
    session = Session(tmp_path, examples)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    session.follow("docs/layout.md")
    assert session.commands == 4
