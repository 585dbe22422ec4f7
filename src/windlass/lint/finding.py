"""What the linter reports, and the names of its rules."""

import ast
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

RULES = MappingProxyType(
    {
        "unawaited": "A durable call of an async handler that is never awaited.",
        "same-name": "Calls that share a name, and whose turns a replay can swap.",
        "changing-name": "A name or key that differs each time the handler is called.",
        "changing-argument": "An argument of a step that differs each time the handler is called.",
        "changing-branch": "A durable call behind the clock or chance.",
        "swallowed": "An `except` that catches what suspends or cancels the handler.",
        "effect": "A side effect outside a step, before a durable call.",
        "enqueue": "An enqueue without a key, before a durable call.",
        "syntax": "A file that cannot be read as Python.",
    }
)
"""The code of each rule, and what it finds. Codes are stable: comments and scripts name them."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One problem. Lines and columns begin with 1."""

    file: str
    line: int
    column: int
    code: str
    message: str
    last_line: int = 0  # of the code that it is about: a comment on any of its lines silences it

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule has found, and the node that it is about."""

    code: str
    node: ast.expr | ast.stmt | ast.ExceptHandler
    message: str
