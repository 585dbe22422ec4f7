"""The generations of a run, as `windlass show` tells of them: inputs that it went on from."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from windlass.cli import output
from windlass.client import Run
from windlass.codec import decode, instant_text
from windlass.domain.step import Generation

MOST = 5
"""Lines about generations, unless all are asked for."""


def check_known(run: Run, generations: Sequence[Generation], number: int | None) -> None:
    """Refuse the number of a generation that the run does not have."""
    if number is not None and number > len(generations):
        known = f"1 to {len(generations)}" if generations else "none"
        raise click.UsageError(f"Run {run.id} has no generation {number}; it has {known}.")


def draw_generations(run: Run, generations: Sequence[Generation], *, whole: bool) -> Iterator[str]:
    """The lines about what a run went on from."""
    said = output.faint("inputs of before; --generation N shows the steps of one")
    yield f"{output.heading('generations')}  {said}"
    shown = generations if whole else generations[-MOST:]
    if len(shown) < len(generations):
        left = len(generations) - len(shown)
        yield output.faint(f"  … {left:,} earlier ones: --steps shows all")
    rows = [
        (
            str(one.number),
            f"+{output.took(run.created_at, one.at)}",
            str(one.attempt),
            output.readable(decode(one.input)),
        )
        for one in shown
    ]
    yield from output.table((">#", ">UNTIL", ">ATTEMPT", "INPUT"), rows, indent="  ")


def generation_dict(one: Generation) -> dict[str, Any]:
    """A generation as plain JSON values."""
    return {
        "generation": one.number,
        "input": decode(one.input),
        "attempt": one.attempt,
        "at": instant_text(one.at),
    }
