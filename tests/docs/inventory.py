"""Which test runs which example of the docs: `python -m tests.docs.inventory` prints it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.fixtures.pages import Block, blocks, examples_of, pages

TESTS = Path(__file__).parents[1]


def claims() -> dict[Block, list[str]]:
    """The tests that run each example, by their marks."""
    found: dict[Block, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if "mark.examples(" not in path.read_text("utf-8"):
            continue
        name = ".".join(["tests", *path.relative_to(TESTS).with_suffix("").parts])
        for test, mark in _marks(importlib.import_module(name)):
            for block in examples_of(mark):
                found.setdefault(block, []).append(f"{path.relative_to(TESTS.parent)}::{test}")
    return found


def _marks(module: ModuleType) -> Iterator[tuple[str, pytest.Mark]]:
    """The marks `examples` of a module's tests, and of their parameters."""
    for name, test in vars(module).items():
        for mark in getattr(test, "pytestmark", ()) if name.startswith("test_") else ():
            if mark.name == "examples":
                yield name, mark
            elif mark.name == "parametrize":
                for values in mark.args[1]:
                    own = getattr(values, "marks", ())
                    yield from ((name, one) for one in map(_plain, own) if one.name == "examples")


def _plain(mark: pytest.Mark | pytest.MarkDecorator) -> pytest.Mark:
    return mark.mark if isinstance(mark, pytest.MarkDecorator) else mark


def main() -> None:
    """Print every block of every page, and who runs it."""
    run = claims()
    for page in pages():
        for block in blocks(page):
            tests = ", ".join(sorted(set(run.get(block, ["-"]))))
            line = f"{block.page}:{block.line}  {block.language or 'text'}  {block.name}  {tests}"
            sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
