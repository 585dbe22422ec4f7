"""Every `windlass …` of the docs is a command line that the program takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from tests.fixtures.pages import ROOT, blocks, pages
from windlass.cli import main

_INLINE = re.compile(r"`(windlass [a-z][^`\n]*)`")
_PLACEHOLDER = re.compile(r"[…|]|\.\.\.")


def command_lines() -> Iterator[tuple[str, str]]:
    """Those in blocks, and those in the text; what has a gap in it is left out."""
    for page in pages():
        for block in blocks(page):
            if block.language in ("console", "sh"):
                for line in re.findall(r"^(?:\$ )?(windlass .+)$", block.text, re.MULTILINE):
                    yield f"{page}:{block.line}", line.removesuffix(" &")
        for line in _INLINE.findall((ROOT / page).read_text("utf-8")):
            if not _PLACEHOLDER.search(line):
                yield page, line


def understand(line: str) -> None:
    """Read a command line, and run nothing."""
    command: click.Command = main
    words = shlex.split(line, comments=True)
    while isinstance(command, click.Group):
        context = click.Context(command, info_name=words[0])
        name = words[1] if len(words) > 1 else None
        found = name and command.get_command(context, name)
        if not found:
            assert command.invoke_without_command or len(words) == 1, f"there is no {line!r}"
            break
        command, words = found, words[1:]
    if len(words) > 1:  # one that is only named needs no arguments
        command.make_context(words[0], words[1:]).close()


def test_every_command_line_of_the_docs_is_understood() -> None:
    lines = sorted(set(command_lines()))
    assert len(lines) > 100
    wrong = []
    for place, line in lines:
        try:
            understand(line)
        except (click.MissingParameter, click.BadOptionUsage) as error:
            if ":" in place:  # the text may name an option alone: `windlass retry --input`
                wrong.append(f"{place}: {line}: {error}")
        except (click.ClickException, AssertionError, ValueError) as error:
            wrong.append(f"{place}: {line}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line", ["windlass nothing", "windlass runs --unheard", "windlass dead x"])
def test_wrong_command_line_is_found(line: str) -> None:
    with pytest.raises((click.ClickException, AssertionError)):
        understand(line)
