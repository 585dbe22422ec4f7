"""What `windlass show` draws of durable runs, and where else they are seen, on both stores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from tests.cli.durable_jobs import make_durable_app
from tests.cli.kit import fails, ok, ok_json, work
from tests.cli.terminal import on_terminal
from windlass import Run, Status, Windlass
from windlass.cli.stats import STATUSES
from windlass.cli.step_tree import MOST_SIGNALS, MOST_STEPS, draw_steps
from windlass.domain.step import Step, StepKind, StepState


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose runs remember what they did."""
    found = make_durable_app(url)
    yield found
    found.close()


def played(app: Windlass, job: str, *signals: str, **input: object) -> Run:
    """A run that has gone as far as it can; it gets each signal when it waits."""
    run = app.enqueue(job, input or None)
    work(app)
    for name in signals:
        run.signal(name, {"from": name})
        work(app)
    return run.refresh()


def part(shown: str, title: str) -> list[str]:
    """The lines of a part of what is shown, without its heading."""
    [found] = [text for text in shown.split("\n\n") if text.startswith(title)]
    return found.splitlines()[1:]


def states(shown: str) -> dict[str, str]:
    """How each step stands, by its name with its branches."""
    titles, *lines = part(shown, "steps")
    name, state = titles.index("STEP"), titles.index("STATE")
    return {line[name:state].split("+")[0].rstrip(): line[state:] for line in lines}


def test_steps_are_a_tree(url: str, app: Windlass) -> None:
    run = played(app, "nested")

    shown = ok("show", run.id, "--url", url)

    assert "\nsteps  2 begun, 2 done, 1 retrying\n" in shown
    found = states(shown)
    assert list(found) == ["ship", "├─ pack", "└─ send", "   ├─ label", "   └─ call"]
    assert (found["ship"], found["└─ send"]) == ("begun", "begun")
    assert found["├─ pack"] == 'done "box"'
    assert found["   └─ call"] == (
        "retrying in 1 h, 1 failure: ConnectionError: no answer for van\\x1b[31m"
    )
    assert "status    scheduled: due in 1 h, retries ship/send/call\n" in shown


def test_a_run_that_sleeps(url: str, app: Windlass) -> None:
    run = played(app, "trial")

    shown = ok("show", run.id, "--url", url)

    assert run.due_at is not None
    year = r"(\d{4}-)?"
    assert states(shown)["welcome"] == 'done "hello"'
    assert re.fullmatch(rf"sleeping until {year}\d\d-\d\d \d\d:\d\dZ", states(shown)["a month"])
    assert f"{run.due_at:%m-%d %H:%M}Z" in states(shown)["a month"]
    assert "status    scheduled: due in 29 d, sleeps in a month\n" in shown
    [event] = [line for line in part(shown, "events") if " sleeping " in line]
    assert event.endswith(f"in a month, until {run.due_at:%Y-%m-%d %H:%M:%S}Z")
    assert "  … 1 more: --events shows all" in shown
    whole = part(ok("show", run.id, "--events", "--url", url), "events")
    assert [line for line in whole if " step.succeeded " in line and line.endswith(" welcome")]


def test_a_run_that_waits_for_several(url: str, app: Windlass) -> None:
    shown = ok("show", played(app, "race").id, "--url", url)

    assert "status    waiting: for late, paid, at most 2 d\nqueue" in shown
    assert "\nuntil     " in shown
    assert states(shown)["paid"] == "waiting for signal paid"
    assert states(shown)["late"].startswith("sleeping until ")


def test_signals_and_who_took_them(url: str, app: Windlass) -> None:
    run = played(app, "parcel")
    assert states(ok("show", run.id, "--url", url))["paid"].startswith(
        "waiting for signal paid until "
    )
    run.signal("paid", {"amount": 7}, key="invoice-1")
    run.signal("extra")
    work(app)

    shown = ok("show", run.id, "--url", url)

    assert "status    waiting: for shipped\n" in shown
    assert "\nuntil     " not in shown
    assert states(shown)["paid"] == 'done signal paid {"amount": 7}'
    assert states(shown)["shipped"] == "waiting for signal shipped"
    titles, first, second = part(shown, "signals")
    assert titles.split() == ["#", "SIGNAL", "AFTER", "TAKEN", "BY", "KEY", "PAYLOAD"]
    assert re.search(r' paid +\+.+  paid +invoice-1 +\{"amount": 7\}$', first)
    assert re.search(r" extra +\+.+  not yet +null$", second)
    assert [line for line in part(shown, "events") if line.endswith(" extra")]
    assert [line for line in part(shown, "attempts") if " waited " in line]


def test_what_a_waiting_run_does_not_wait_for_is_dropped(app: Windlass) -> None:
    """Such as the sleep that has lost a race; one whose time is over is done, though."""
    run = app.enqueue("greet")
    record = msgspec.structs.replace(run.record, status=Status.WAITING, waits=("shipped",))
    run.become(record)
    now = run.created_at

    def sleep(path: str, hours: int) -> Step:
        return Step(
            path=path, kind=StepKind.SLEEP, state=StepState.WAITING, started_at=now, at=now,
            attempt=1, until=now + timedelta(hours=hours),
        )  # fmt: skip

    steps = [sleep("late", 3), sleep("shipped", 3), sleep("over", 1)]
    lines = list(draw_steps(run, steps, now + timedelta(hours=2), whole=True))

    found = {line.split()[0]: line for line in lines[2:]}
    assert found["late"].endswith(" dropped sleep")
    assert " sleeping until " in found["shipped"]
    assert re.search(r"\+0 s +1 h +done sleep$", found["over"])


def test_what_a_run_left_behind_when_it_ended(url: str, app: Windlass) -> None:
    run = played(app, "order")
    run.signal("extra")
    run.cancel()

    shown = ok("show", run.id, "--url", url)

    assert states(shown)["paid"] == "dropped signal paid"
    assert " nobody " in part(shown, "signals")[1]


def test_a_step_that_has_failed_for_good(url: str, app: Windlass) -> None:
    run = played(app, "broken")

    shown = ok("show", run.id, "--url", url)

    assert states(shown)["charge"] == ("failed: ConnectionError: no answer for card\\x1b[31m")
    assert "\x1b" not in shown


def test_many_steps_are_left_out_unless_asked_for(url: str, app: Windlass) -> None:
    run = played(app, "many", count=40)
    for n in range(MOST_SIGNALS + 2):
        run.signal("other", n)

    shown = ok("show", run.id, "--url", url)

    assert f"  … {41 - MOST_STEPS} more: --steps shows all\n" in shown
    assert len(part(shown, "steps")) == MOST_STEPS + 2
    assert "waiting for signal more" in shown
    assert " part#40 " in shown
    assert " part#2 " not in shown
    assert "  … 2 earlier ones: --steps shows all\n" in shown
    whole = ok("show", run.id, "--steps", "--url", url)
    assert len(part(whole, "steps")) == 42
    assert len(part(whole, "signals")) == MOST_SIGNALS + 3
    assert " more: --steps" not in whole
    found = ok_json("show", run.id, "--json", "--url", url)
    assert (len(found["steps"]), len(found["signals"])) == (41, MOST_SIGNALS + 2)
    assert found["waits"] == ["more"]


def test_the_json_of_a_step(url: str, app: Windlass) -> None:
    run = played(app, "unlucky")

    [step] = ok_json("show", run.id, "--json", "--url", url)["steps"]

    assert (step["path"], step["kind"], step["state"]) == ("call", "step", "retrying")
    assert (step["failures"], step["attempt"], step["value"]) == (1, 1, None)
    assert step["error"] == {
        "type": "ConnectionError",
        "message": "no answer\nfor card\x1b[31m",
    }
    assert step["until"] > step["at"]


def test_runs_without_steps_have_no_such_part(url: str, app: Windlass) -> None:
    run = played(app, "greet")
    shown = ok("show", run.id, "--url", url)
    assert "steps" not in shown
    assert "signals" not in shown


def test_listings_say_what_is_waited_for(url: str, app: Windlass) -> None:
    bounded, patient = played(app, "order"), played(app, "patient")
    asleep, unlucky = played(app, "trial"), played(app, "unlucky")

    rows = {row.split()[0]: row for row in ok("runs", "--url", url).splitlines()}

    assert re.search(r" waiting .* for paid, at most 6 d$", rows[bounded.id])
    assert re.search(r" waiting .* for paid$", rows[patient.id])
    assert re.search(r" scheduled .* due in 29 d in step a month$", rows[asleep.id])
    assert re.search(r" scheduled .* due in 59 m in step call$", rows[unlucky.id])
    found = ok_json("runs", "--status", "waiting", "--url", url, "--json")
    assert [(run["id"], run["waits"]) for run in found] == [
        (patient.id, ["paid"]),
        (bounded.id, ["paid"]),
    ]


def test_stats_count_them(url: str, app: Windlass) -> None:
    for job in ("order", "patient", "trial"):
        played(app, job)

    lines = [line.split() for line in ok("stats", "--url", url).splitlines()]

    assert ["waiting", "2"] in lines
    assert ["scheduled", "1"] in lines
    titles = ["QUEUE", "READY", "RUNNING", "SCHEDULED", "WAITING", "PAUSED", "OLDEST"]
    assert lines[lines.index(titles) + 1] == ["default", "0", "0", "1", "2", "0"]
    by_job = [line.split() for line in ok("stats", "--by", "job", "--url", url).splitlines()]
    assert by_job[0] == ["JOB", *(title.upper() for title in STATUSES)]
    assert ["order", "1"] in by_job
    [queue] = ok_json("stats", "--json", "--url", url)["queues"]
    assert (queue["scheduled"], queue["waiting"]) == (1, 2)


@pytest.mark.parametrize("job", ["nested", "race", "trial", "many"])
def test_on_a_terminal_no_line_wraps(folder: Path, job: str) -> None:
    app = make_durable_app("sqlite:///windlass.db")
    input = {"count": 40} if job == "many" else {}
    run = played(app, job, **input)
    run.signal("a-name-that-is-" + "long-" * 30, {"text": "x" * 300}, key="k" * 100)
    app.close()

    with on_terminal(folder, "show", run.id, "--url", "sqlite:///windlass.db") as terminal:
        assert terminal.ends() == 0

    assert "\x1b[" in terminal.raw
    assert [line for line in terminal.lines if len(line) > 80] == []
    steps = next(n for n, line in enumerate(terminal.lines) if line.startswith("steps"))
    assert terminal.lines[steps:].index("") <= MOST_STEPS + 3


def test_generations_and_the_steps_of_one(url: str, app: Windlass) -> None:
    run = played(app, "pages")

    shown = ok("show", run.id, "--url", url)
    left_out, titles, *lines = part(shown, "generations")
    assert left_out.strip().startswith("… 2 earlier ones: --steps shows all")
    assert titles.split() == ["#", "UNTIL", "ATTEMPT", "INPUT"]
    assert [line.split()[0] for line in lines] == ["3", "4", "5", "6", "7"]
    assert lines[-1].endswith('{"page": 7}')
    assert 'input     {"page": 8}' in shown
    assert list(states(shown)) == ["fetch", "more"]
    assert "continued" in shown

    earlier = ok("show", run.id, "--generation", "2", "--steps", "--url", url)
    assert "\nsteps of generation 2  1 done\n" in earlier
    assert states(earlier) == {"fetch": 'done "2"'}
    assert [line.split()[0] for line in part(earlier, "generations")[1:]] == list("1234567")

    found = ok_json("show", run.id, "--generation", "1", "--json", "--url", url)
    assert [one["input"] for one in found["generations"]][:2] == [{}, {"page": 2}]
    assert [step["value"] for step in found["steps"]] == ["1"]

    refused = fails(2, "show", run.id, "--generation", "9", "--url", url)
    assert f"Run {run.id} has no generation 9; it has 1 to 7." in refused
