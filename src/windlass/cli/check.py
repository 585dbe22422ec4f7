"""`windlass check`: finds mistakes in handlers with durable steps, without running them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli.options import json_option

if TYPE_CHECKING:
    from windlass.config import Settings
    from windlass.lint import Finding, Report

FOUND = 1


@click.command
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--app",
    "app_name",
    metavar="MODULE:NAME",
    help="The application whose code to check, where no PATH is given.  [env: WINDLASS_APP]",
)
@json_option
def check(paths: tuple[Path, ...], app_name: str | None, as_json: bool) -> None:
    """Find mistakes in handlers with durable steps.

    It reads the files and all Python files below the folders, and imports nothing. Without a PATH
    it checks the application's package or module, and the job files; without these, the current
    folder.

    Each problem is one line, FILE:LINE:COLUMN: CODE MESSAGE. A comment `# windlass: ignore[CODE]`
    on its line silences it.

    \b
    Exit codes: 0 nothing found; 1 problems; 2 wrong usage.
    """
    from windlass.cli import output
    from windlass.config import Settings
    from windlass.lint import check_paths

    before = click.get_current_context().find_object(dict) or {}
    settings = Settings.load(app=app_name or before.get("app"))
    try:
        report = check_paths(paths or _default_paths(settings), job_files=settings.jobs)
    except FileNotFoundError as error:
        raise click.UsageError(f"There is no file or folder {str(error.args[0])!r}.") from None
    if as_json:
        click.echo(output.to_json(report.to_dict(), indent=2))
    else:
        for finding in report.findings:
            click.echo(_line(finding))
        click.echo(_summary(report), err=bool(report.findings))
    click.get_current_context().exit(FOUND if report.findings else 0)


def _default_paths(settings: "Settings") -> list[Path]:
    """The code of the application and its job files, as far as they are found without importing."""
    from windlass.config import find_file

    here, config = Path.cwd(), find_file(Path.cwd())
    folders = [here] if config is None or config.parent == here else [here, config.parent]
    found = [] if settings.app is None else _modules(settings.app, folders)
    if settings.app is not None and not found:
        searched = " or ".join(str(folder) for folder in folders)
        module = settings.app.partition(":")[0]
        raise click.UsageError(f"There is no module {module!r} in {searched}: give a PATH.")
    if settings.jobs.is_dir():
        found.append(settings.jobs)
    return [_from_here(path) for path in found] or [Path()]


def _modules(app: str, folders: list[Path]) -> list[Path]:
    """The outermost package that an application is in, or its module."""
    name, *inner = app.partition(":")[0].split(".")
    for folder in (f / part for f in folders for part in ("", "src")):
        if (folder / name).is_dir() and ((folder / name / "__init__.py").exists() or inner):
            return [folder / name]
        if (folder / f"{name}.py").is_file():
            return [folder / f"{name}.py"]
    return []


def _from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _line(finding: "Finding") -> str:
    from windlass.cli import output

    place = f"{output.one_line(finding.file)}:{finding.line}:{finding.column}"
    return f"{place}: {output.paint(finding.code, 'red')} {output.one_line(finding.message)}"


def _summary(report: "Report") -> str:
    files = f"{report.files:,} file{'' if report.files == 1 else 's'}"
    if not report.findings:
        return f"{files}, nothing found."
    count, where = len(report.findings), len({finding.file for finding in report.findings})
    problems = f"{count:,} problem{'' if count == 1 else 's'}"
    return f"{files}, {problems} in {where:,} of them."
