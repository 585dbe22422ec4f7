"""Writes the parts of the docs that follow from code: `python tools/make_docs.py [--check]`."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from windlass.domain.event import EventType
from windlass.domain.scheduling.cron import Cron
from windlass.domain.states import TRANSITIONS, Failure, Status, Verb
from windlass.domain.zone import parse_zone

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "states.md"
TIME_PAGE = DOCS / "time.md"

STATUSES = {
    Status.SCHEDULED: "not yet due: a future time, a backoff, a snooze, a durable sleep",
    Status.QUEUED: "ready: a worker that knows the job may claim it now",
    Status.RUNNING: "a worker holds its lease",
    Status.WAITING: "waits for a signal, without a worker",
    Status.PAUSED: "an operator stopped it for now; it keeps its place",
    Status.SUCCEEDED: "ended well; has a result",
    Status.FAILED: "ended badly for good; `failure` says how",
    Status.CANCELED: "ended on request",
}

VERBS = {
    Verb.DUE: "its time has come, or the signal that it waits for",
    Verb.CLAIM: "a worker takes its lease",
    Verb.SUCCEED: "the handler returned",
    Verb.FAIL: "it failed and will not be tried again",
    Verb.BACKOFF: "it failed and will be tried again",
    Verb.SNOOZE: "the handler asked to be called later",
    Verb.SLEEP: "the handler sleeps durably, and gave its lease up",
    Verb.HOLD: "a new run is held back: other runs have to end first",
    Verb.WAIT: "the handler waits for a signal, and gave its lease up",
    Verb.CONTINUE: "the handler went on with another input and an empty history",
    Verb.RELEASE: "its worker stopped and gave it back",
    Verb.REAP: "its worker died",
    Verb.CRASH: "its worker died once too often",
    Verb.STOP: "it ended on request",
    Verb.CANCEL: "an operator asked for its end",
    Verb.EXPIRE: "it had not started by its `expires`",
    Verb.OVERRUN: "it was not done by its `deadline`",
    Verb.RETRY: "an operator reopened it",
    Verb.RESCHEDULE: "an operator chose another time for it",
    Verb.REPRIORITIZE: "an operator chose another priority or queue for it",
    Verb.CHANGE: "an operator gave it another input, other tags or other times",
    Verb.SIGNAL: "it was sent a signal",
    Verb.PAUSE: "an operator stopped it for now, or asked a running one to stop",
    Verb.RESUME: "an operator let it go on: it may be claimed now",
    Verb.RESUME_TIMER: "an operator let it go on: its time has not come yet",
    Verb.RESUME_WAIT: "an operator let it go on: what it waits for has not come yet",
    Verb.RESTART: "an operator let it begin anew, from its start or from a step on",
    Verb.TERMINATE: "an operator ended it at once",
}

FAILURES = {
    Failure.EXHAUSTED: "its handler failed `max_attempts` times",
    Failure.FATAL: "an error that is never retried",
    Failure.TIMEOUT: "the last allowed attempt ran out of time",
    Failure.CRASHED: "its worker process died `max_crashes` times",
    Failure.EXPIRED: "it had not started before `expires`",
    Failure.DEADLINE: "it was not done by its `deadline`",
    Failure.NONDETERMINISM: "its handler asked for other steps than the run has recorded",
}

# The words of other systems, for those who come from them.
ALIASES = {
    "pending": "scheduled or queued",
    "active, processing": "running",
    "completed, complete, done": "succeeded",
    "cancelled": "canceled",
    "dead": "failed, with failure `exhausted`",
    "dead letter": "failed, and on the list of `windlass dead` until retried or discarded",
    "retrying": "scheduled, waiting for a backoff",
    "stale (retention)": "any outcome, with `stale_at` set",
    "stalled, lost heartbeat": "running until the reaper comes, then queued",
}

# Days on which the clocks changed, and what is worth knowing of them. They lie in the past: zone
# data of the future is a forecast, and this page must be the same on every machine.
BERLIN = ["30 2 * * *", "0 1-3 * * *", "0 */2 * * *", "0 * * * *"]
CHANGES = [
    ("Europe/Berlin", "2025-03-30", [*BERLIN, "0,15,30 2 * * *", "*/5 2 * * *"]),
    ("Europe/Berlin", "2025-10-26", [*BERLIN, "*/30 2 * * *"]),
    ("America/New_York", "2025-03-09", ["30 2 * * *"]),
    ("America/New_York", "2025-11-02", ["30 1 * * *"]),
    ("America/St_Johns", "2011-03-13", ["0 0 * * *", "30 0 * * *"]),
    ("America/Santiago", "2024-09-08", ["0 0 * * *", "0 */12 * * *"]),
    ("America/Santiago", "2025-04-05", ["30 23 * * *"]),
    ("Africa/Cairo", "2024-04-26", ["0 0 * * *", "30 0 * * *"]),
    ("Africa/Cairo", "2024-10-31", ["30 23 * * *"]),
    ("Africa/Casablanca", "2025-02-23", ["30 2 * * *"]),
    ("Africa/Casablanca", "2025-04-06", ["30 2 * * *"]),
    ("Asia/Tehran", "2022-03-22", ["30 0 * * *"]),
    ("Asia/Tehran", "2022-09-21", ["30 23 * * *"]),
    ("Australia/Adelaide", "2025-10-05", ["30 2 * * *"]),
    ("Australia/Adelaide", "2025-04-06", ["30 2 * * *"]),
    ("Australia/Lord_Howe", "2025-10-05", ["15 2 * * *", "45 2 * * *", "*/20 1-2 * * *"]),
    ("Australia/Lord_Howe", "2025-04-06", ["45 1 * * *", "*/20 1 * * *"]),
    ("Antarctica/Troll", "2025-03-30", ["30 1,2 * * *"]),
    ("Antarctica/Troll", "2025-10-26", ["30 1,2 * * *"]),
    ("Antarctica/Casey", "2020-10-04", ["30 1 * * *"]),
    ("Pacific/Apia", "2011-12-30", ["30 2 * * *", "0 * * * *"]),
    ("Pacific/Apia", "2011-12-31", ["30 2 * * *"]),
    ("Asia/Kathmandu", "2025-03-30", ["30 2 * * *"]),
    ("Asia/Kolkata", "2025-03-30", ["30 2 * * *"]),
    ("UTC", "2025-03-30", ["30 2 * * *"]),
]


def page() -> str:
    """The whole page of states."""
    return "\n".join(
        [
            "# The life of a run",
            "",
            "Every status of a run, and what leads from one to the next.",
            "",
            "Made by `tools/make_docs.py` from `src/windlass/domain/states.py`, the table that",
            "decides; do not edit. What is not in the table is refused, with an error that names",
            "the run, its status and the verb.",
            "",
            *_ways(),
            "",
            *_table("status", "meaning", {s.value: t for s, t in STATUSES.items()}),
            "",
            "A cancel of a running run does not move it: the wish is recorded, its worker is told,",
            "and the first recorded outcome wins. Whatever would have sent the run round again",
            "(backoff, snooze, sleep, wait, continue, release, reap) then ends it as canceled.",
            "A pause is recorded in the same way; what sends the run round again then leaves it",
            "paused, and a resume takes it to where it would have gone ([control](control.md)). A",
            "run that begins to wait for a signal that is already there goes on to `queued` at",
            "once. A succeeded run can be",
            "reopened, by retry or reschedule, only once [retention](retention.md) has marked it",
            "stale: to repeat it before, [run it again](jobs.md#change-retry-run-again).",
            "",
            "A reschedule to a time that has come leads on to `queued` in the same transaction. A",
            "run that waits keeps its expiry and its deadline: a time at which one of them would",
            "have ended it is refused. One that is reopened, by retry or reschedule, has neither",
            "any more.",
            "",
            *_table("verb", "what happened", {v.value: t for v, t in VERBS.items()}),
            "",
            *_table(
                "failure", "why a failed run failed", {f.value: t for f, t in FAILURES.items()}
            ),
            "",
            "## Counting",
            "",
            "- `attempt`: how often it was started.",
            "- `failures`: handler failures and timeouts. This is what `max_attempts` limits.",
            "- `crash_count`: how often its worker died, or it stopped or blocked its worker.",
            "  `max_crashes` limits it.",
            "- A graceful shutdown counts nowhere; its attempt is recorded as interrupted.",
            "- A run that finds no thread or process to run in counts nowhere; recorded likewise.",
            "",
            "A run that an operator reopens starts with `failures` and `crash_count` at zero;",
            "`attempt`, the token and the numbering of events go on. Its steps that failed are",
            "tried again; those that are done stay done. A run that is rescheduled",
            "while it waits keeps all of them, also in the middle of a backoff.",
            "",
            "## Events",
            "",
            ", ".join(f"`{event.value}`" for event in EventType) + ".",
            "",
            "Each is written in the transaction that makes it true, numbered 1, 2, 3 … per run.",
            "",
            "## Other systems' words",
            "",
            *_table("elsewhere", "here", ALIASES, code=False),
            "",
        ]
    )


def _ways() -> list[str]:
    """Every way from one status to another: a table, which needs no library to be seen."""
    rows = [("(enqueue)", "not yet due", Status.SCHEDULED), ("(enqueue)", "due", Status.QUEUED)]
    for status, verbs in TRANSITIONS.items():
        grouped: dict[Status, list[str]] = {}
        for verb, target in verbs.items():
            if target is not status:
                grouped.setdefault(target, []).append(f"`{verb.value}`")
        rows.extend((f"`{status.value}`", ", ".join(v), target) for target, v in grouped.items())
    lines, before = ["| from | by | to |", "|---|---|---|"], ""
    for start, by, target in rows:
        lines.append(f"| {'' if start == before else start} | {by} | `{target.value}` |")
        before = start
    return lines


def _table(left: str, right: str, rows: dict[str, str], *, code: bool = True) -> list[str]:
    mark = "`" if code else ""
    return [
        f"| {left} | {right} |",
        "|---|---|",
        *[f"| {mark}{name}{mark} | {text} |" for name, text in rows.items()],
    ]


def time_page() -> str:
    """The page on time, whose table of clock changes is made and whose rest is written."""
    text = TIME_PAGE.read_text("utf-8")
    begin, end = "<!-- begin: made by tools/make_docs.py -->\n", "<!-- end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{TIME_PAGE.name} has lost the comments around its table")
    return "\n".join([before + begin, *_change_table(), "", end + after])


def _change_table() -> list[str]:
    lines = [
        "| zone and day | the clocks | expression | slots |",
        "|---|---|---|---|",
    ]
    for name, day, expressions in CHANGES:
        zone, where = parse_zone(name), f"{name} {day}"
        what = _what_the_clocks_did(zone, day)
        for expression in expressions:
            slots = ", ".join(_slots(zone, day, expression)) or "none"
            lines.append(f"| {where} | {what} | `{expression}` | {slots} |")
            where = what = ""
    return lines


def _what_the_clocks_did(zone: ZoneInfo, day: str) -> str:
    minute = timedelta(minutes=1)
    instant = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=zone).astimezone(UTC)
    for n in range(-18 * 60, 18 * 60):
        after = (instant + n * minute).astimezone(zone)
        before = (instant + (n - 1) * minute).astimezone(zone)
        if before.utcoffset() != after.utcoffset():
            shown = (before.replace(tzinfo=None) + minute).replace(tzinfo=before.tzinfo)
            date = "" if shown.date() == after.date() else f"{after:%m-%d} "
            return f"{shown:%H:%M} → {date}{after:%H:%M}"
    return "no change"


def _slots(zone: ZoneInfo, day: str, expression: str) -> list[str]:
    """The slots of that local day; of more than six, the first ones."""
    cron, found = Cron.parse(expression), []
    slot = datetime.fromisoformat(f"{day}T00:00Z") - timedelta(days=2)
    while (local := slot.astimezone(zone).isoformat(timespec="minutes"))[:10] <= day:
        if local.startswith(day):
            found.append(f"{local[11:16]} {local[16:]}")
        slot = cron.next_after(slot, zone)
    return found if len(found) <= 6 else [*found[:5], f"… {len(found)} in all"]


def main() -> int:
    """Write the pages, or say whether they are up to date."""
    code = 0
    for path, made in ((PAGE, page()), (TIME_PAGE, time_page())):
        if "--check" not in sys.argv:
            path.write_text(made, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != made:
            print(f"{path.name} is not up to date: run `python tools/make_docs.py`")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
