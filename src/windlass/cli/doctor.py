"""`windlass doctor`: looks for what is wrong, and says what to do."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from windlass.cli.options import StorePlace, duration, json_option, place_options

if TYPE_CHECKING:
    from windlass.domain.checkup import Report

WARNINGS = 1
ERRORS = 6


@click.command
@click.option(
    "--limit",
    metavar="DURATION",
    callback=duration,
    default="5s",
    show_default=True,
    help="Give up a check that takes longer.",
)
@click.option(
    "--old",
    metavar="DURATION",
    callback=duration,
    default="5m",
    show_default=True,
    help="Report transactions, and runs that wait beside free seats, that are older.",
)
@click.option(
    "--full", is_flag=True, help="Read the whole SQLite file for damage, however long it takes."
)
@json_option
@place_options
def doctor(place: StorePlace, limit: float, old: float, full: bool, as_json: bool) -> None:
    """Find what is wrong, and say what to do.

    It changes nothing. Each check says one of: ok, note (worth knowing), warning (something is
    not done, or will not be), error (it does not work, or a promise does not hold).

    \b
    Exit codes: 0 nothing worse than a note; 1 warnings; 6 errors.
    """
    from windlass.cli import loading, output
    from windlass.doctor import examine
    from windlass.domain.checkup import Limits, Severity

    # Not closed at the end: a check that hangs may have hold of it.
    app = loading.store(place.app, place.url, existing=False)
    report = examine(app, Limits(transaction=old, waiting=old), seconds=limit, full=full)
    if as_json:
        click.echo(output.to_json(report.to_dict(), indent=2))
    else:
        for line in lines(report):
            click.echo(line)
    codes = {Severity.WARNING: WARNINGS, Severity.ERROR: ERRORS}
    click.get_current_context().exit(codes.get(report.worst, 0))


def lines(report: "Report") -> Iterator[str]:
    """The report for people: a line for each finding, and one below it for what to do."""
    from windlass.cli import output
    from windlass.domain.checkup import Severity

    colors = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}
    width = max(len(finding.check) for finding in report.findings if finding.made)
    blanks = " " * (len("warning") + width + 2 * len(output.GAP))
    yield f"{output.heading('store')}  {report.place}"
    yield ""
    for finding in report.findings:
        if not finding.made:
            continue  # together, below
        name = finding.severity.value
        mark = output.paint(name, colors[name]) + " " * (len("warning") - len(name))
        yield output.GAP.join([mark, finding.check.ljust(width), output.one_line(finding.text)])
        if finding.advice:
            yield blanks + output.faint(f"-> {output.one_line(finding.advice)}")
    skipped: dict[str, list[str]] = {}
    for finding in report.findings:
        if not finding.made:
            skipped.setdefault(finding.text.rstrip("."), []).append(finding.check)
    for text, names in skipped.items():
        yield output.faint(f"{text}: {', '.join(names)}.")
    yield ""
    counts = [f"{report.count(severity)} {severity.value}" for severity in Severity]
    yield ", ".join(counts) + "."
