"""Finds the Python files to check, and checks them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.lint.check import check_source
from windlass.lint.finding import Finding

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in some files."""

    files: int
    findings: Sequence[Finding]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"files": self.files, "findings": [f.to_dict() for f in self.findings]}


def check_paths(paths: Sequence[Path], *, job_files: Path | None = None) -> Report:
    """Check files, and all Python files below folders.

    Files are named in the report as they are given. `job_files` is the folder of those.
    Raises FileNotFoundError for a path that is not there.
    """
    files = list(dict.fromkeys(file for path in paths for file in find_files(path)))
    folder = None if job_files is None else job_files.resolve()
    findings: list[Finding] = []
    for file in files:
        is_job_file = folder is not None and file.resolve().is_relative_to(folder)
        findings += _check_file(file, is_job_file=is_job_file)
    return Report(len(files), sorted(findings))


def find_files(path: Path) -> Iterator[Path]:
    """The file itself; of a folder, its Python files, without hidden and installed ones."""
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(path)
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if _is_source(Path(folder), name))
        for name in sorted(names):
            if name.endswith(".py"):
                yield Path(folder, name)


def _is_source(parent: Path, name: str) -> bool:
    if name.startswith(".") or name in _SKIPPED:
        return False
    return not (parent / name / "pyvenv.cfg").exists()  # an environment, whatever it is called


def _check_file(file: Path, *, is_job_file: bool) -> Sequence[Finding]:
    try:
        data = file.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        return [Finding(str(file), 1, 1, "syntax", f"This file cannot be read: {why}.")]
    return check_source(data, str(file), is_job_file=is_job_file)
