"""What the tests of the linter share: snippets of handlers, whose comments say what must be found.

`# <- code` at the end of a line: that rule must report this line. Nothing else may be reported.
"""

from __future__ import annotations

import re
from textwrap import dedent, indent

from windlass.lint import check_source

_EXPECTED = re.compile(r"# <- ([\w, -]+)$")

IMPORTS = """\
import asyncio
import contextlib
import datetime as dt
import os
import random
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from uuid import uuid4

import httpx
import requests

from windlass import Context, SyncContext, Windlass

app = Windlass()
"""

HANDLER = "\n@app.job\nasync def handle(ctx: Context, order, items):\n"
SYNC_HANDLER = "\n@app.job\ndef handle(ctx: SyncContext, order, items):\n"


def handler(body: str) -> str:
    """A file with an async handler."""
    return IMPORTS + HANDLER + indent(dedent(body).strip("\n"), "    ") + "\n"


def sync_handler(body: str) -> str:
    """A file with a handler in a thread."""
    return IMPORTS + SYNC_HANDLER + indent(dedent(body).strip("\n"), "    ") + "\n"


def module(body: str) -> str:
    """A file with the imports, and this."""
    return IMPORTS + "\n" + dedent(body)


def expected(source: str) -> list[tuple[int, str]]:
    """What the comments of a file say must be found."""
    found = []
    for number, line in enumerate(source.split("\n"), 1):
        if match := _EXPECTED.search(line):
            found += [(number, code.strip()) for code in match[1].split(",")]
    return sorted(found)


def found(source: str, *, is_job_file: bool = False) -> list[tuple[int, str]]:
    """The lines that are reported, and the rules."""
    findings = check_source(source.encode(), "tasks.py", is_job_file=is_job_file)
    return sorted((finding.line, finding.code) for finding in findings)


def check_wrong(source: str) -> None:
    """What the comments say is found, and nothing else."""
    assert expected(source), "the snippet expects nothing"
    assert found(source) == expected(source)


def check_right(source: str) -> None:
    """Nothing is found, though there is something to look at."""
    assert not expected(source)
    assert re.search(r"\b(ctx|context)\.\w+\(", source)
    assert found(source) == []
