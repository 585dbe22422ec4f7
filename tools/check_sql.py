"""Fail when a PostgreSQL function pins its plans and lets the server compile them.

Before PostgreSQL 18 a plan in which something is switched off costs 1e10, and is compiled at each
call: a hundred times what it takes to run it (docs/decisions/0003-plans-are-pinned.md).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_HEAD = re.compile(r"create or replace function (\S+?)\(.*?\bas \$\$", re.DOTALL)


def compiled(path: Path) -> Iterator[str]:
    """Yield one sentence for each function that sets `enable_…` without `jit = off`."""
    for head in _HEAD.finditer(path.read_text(encoding="utf-8")):
        if "\nset enable_" in head[0] and "\nset jit = off\n" not in head[0]:
            yield f"{path}: {head[1]} pins its plans; it needs `set jit = off` too"


def main(roots: list[str]) -> int:
    """Check every function under the given folders; return the exit code."""
    files = [path for root in roots for path in sorted(Path(root).rglob("functions/*.sql"))]
    found = [line for path in files for line in compiled(path)]
    for line in found:
        print(line)
    if not found:
        print(f"No pinned plan in {len(files)} files of functions is compiled.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
