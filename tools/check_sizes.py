"""Fail when a module, a function or a class of the package has outgrown its ceiling.

A room that is too large is split where a part of it has a name of its own.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 450
FUNCTION_LINES = 60
PUBLIC_METHODS = 20

Function = ast.FunctionDef | ast.AsyncFunctionDef


def oversized(path: Path) -> Iterator[str]:
    """Yield one sentence for each thing in the module that is too large."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MODULE_LINES:
        yield f"{path}: {lines} lines, at most {MODULE_LINES}"
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES}"
                )
        elif isinstance(node, ast.ClassDef):
            names = {x.name for x in node.body if isinstance(x, Function) and is_verb(x)}
            methods = len(names - {f"a{name}" for name in names})  # twins are one verb
            if methods > PUBLIC_METHODS:
                yield (
                    f"{path}:{node.lineno}: class {node.name} has {methods} public methods, "
                    f"at most {PUBLIC_METHODS}"
                )


def is_verb(method: Function) -> bool:
    """Whether it is a public method: properties are attributes, overloads are one method."""
    marks = {mark.id for mark in method.decorator_list if isinstance(mark, ast.Name)}
    return not method.name.startswith("_") and "property" not in marks


def main(roots: list[str]) -> int:
    """Check every module under the given folders; return the exit code."""
    modules = [path for root in roots for path in sorted(Path(root).rglob("*.py"))]
    found = [line for path in modules for line in oversized(path)]
    for line in found:
        print(line)
    if not found:
        print(f"Sizes of {len(modules)} modules are within their ceilings.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src"]))
