"""Pydantic AI is imported by its own package alone, which says what to install."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["pydantic_ai"] = None
try:
    import windlass.contrib.pydantic_ai
except Exception as error:
    print(type(error).__name__, error)
"""
NOT_LOADED = """
import sys
import windlass.app, windlass.testing, windlass.cli, windlass.engine.worker
print([name for name in sys.modules if name.split(".")[0] in ("pydantic_ai", "pydantic")])
"""


def said(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True
    )
    return done.stdout.strip()


def test_without_the_extra_the_error_says_what_to_install() -> None:
    expected = "UsageError Durable agents need Pydantic AI: pip install 'windlass[pydantic-ai]'."
    assert said(WITHOUT) == expected


def test_nothing_else_loads_it() -> None:
    assert said(NOT_LOADED) == "[]"
