"""Every Python example of the docs is run by a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.inventory import claims
from tests.fixtures.pages import Block, Examples, blocks, pages, read_blocks

OTHER_SYSTEM = "code of another system, which the one beside it replaces"
READ = "read by `windlass check`, in tests/lint/test_check.py: half of them are wrong on purpose"
# By page, or by page and name.
NOT_RUN = {
    ("docs/check.md",): READ,
    ("docs/from-celery.md", "Celery"): OTHER_SYSTEM,
    ("docs/from-procrastinate.md", "Procrastinate"): OTHER_SYSTEM,
    ("docs/from-rq.md", "RQ"): OTHER_SYSTEM,
}


def is_excused(block: Block) -> bool:
    return (block.page,) in NOT_RUN or (block.page, block.name) in NOT_RUN


def test_every_python_example_is_run_by_a_test() -> None:
    run = claims()
    examples = [block for page in pages() for block in blocks(page) if block.language == "python"]
    assert len(examples) > 100
    unseen = [str(block) for block in examples if block not in run and not is_excused(block)]
    assert not unseen, f"No test runs these; see tests/fixtures/pages.py: {unseen}"


def test_nothing_that_is_run_is_excused() -> None:
    assert [str(block) for block in claims() if is_excused(block)] == []
    found = {(block.page, block.name) for page in pages() for block in blocks(page)}
    known = {*found, *((page,) for page, _ in found)}
    assert [key for key in NOT_RUN if key not in known] == []


def test_example_that_has_not_run_to_its_end_is_found(tmp_path: Path) -> None:
    example = Block(page="p.md", name="n", language="python", text="x = 1\nstop()\n", line=1)
    examples = Examples([example], tmp_path)
    with pytest.raises(NameError):
        examples.run("n")
    assert examples.not_run() == [example]
    assert examples.run("n", stop=int)["x"] == 1
    assert examples.not_run() == []


def test_block_has_the_name_of_its_file_or_its_heading() -> None:
    text = (
        "# Page\n\n```python\n# a.py\nx = 1\n```\n\n## `Second`\n\n```python\n## no heading\n```\n"
        "\n- In a list:\n\n  ```python\n  y = 2\n  ```\n\n```sh\nls\n```\n"
    )
    found = list(read_blocks("p.md", text))
    assert [(b.language, b.name, b.line) for b in found] == [
        ("python", "a.py", 3), ("python", "Second", 10), ("python", "Second (2)", 16),
        ("sh", "Second", 20),
    ]  # fmt: skip
    assert (found[0].file, found[2].text) == ("a.py", "y = 2\n")
