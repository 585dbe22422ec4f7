"""The sum of the tour: what ended how, and whether it should have."""

from collections import Counter
from collections.abc import Iterator, Sequence

from windlass.cli.demo.acts import DemoAct
from windlass.cli.demo.screen import Burst, Watering, glyphs, rate
from windlass.cli.output import paint, status_text, table
from windlass.domain.states import Status


def all_good(played: Sequence[DemoAct], watering: Watering, burst: Burst | None) -> bool:
    """Whether everything ended as it should."""
    whole = burst is not None and burst.over and burst.done == burst.total
    return whole and watering.over and all(act.as_expected for act in played)


def summary(played: Sequence[DemoAct], watering: Watering, burst: Burst | None) -> Iterator[str]:
    """The last lines of the tour."""
    ended: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for act in played:
        runs = {run.id: run for run in act.runs}.values()
        ended.update(run.status.value for run in runs)
        good.update(run.status.value for run in runs if act.as_expected)
    for done in (watering.done, burst.done if burst is not None else 0):
        ended[Status.SUCCEEDED] += done
        good[Status.SUCCEEDED] += done
    rows = [(status_text(name), f"{ended[name]:,}", f"{good[name]:,}", "") for name in ended]
    yield ""
    yield from table(("OUTCOME", ">RUNS", ">AS EXPECTED", ""), rows, indent="    ")
    yield ""
    if burst is not None and burst.seconds:
        speed = f"{rate(burst):,} runs a second"
        yield f"    burst: {burst.done:,} runs in {burst.seconds:.2f} s, {speed}"
    signs = glyphs()
    if all_good(played, watering, burst):
        yield paint(f"  {signs.good} every outcome as expected", "green", bold=True)
        return
    yield paint(f"  {signs.bad} not as expected: {_wrong(played, watering)}", "red", bold=True)


def _wrong(played: Sequence[DemoAct], watering: Watering) -> str:
    names = [act.title for act in played if not act.as_expected]
    if not watering.over:
        names.append("the schedule")
    return ", ".join(names) or "the burst"
