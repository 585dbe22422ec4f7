"""Writes the parts of the docs that follow from code: `python tools/make_docs.py [--check]`."""

import sys
from pathlib import Path

from windlass.domain.event import EventType
from windlass.domain.states import TRANSITIONS, Failure, Status, Verb

PAGE = Path(__file__).parent.parent / "docs" / "states.md"

STATUSES = {
    Status.SCHEDULED: "not yet due: a future time, a backoff, a snooze",
    Status.QUEUED: "ready: a worker that knows the job may claim it now",
    Status.RUNNING: "a worker holds its lease",
    Status.WAITING: "reserved: for a signal or for children",
    Status.PAUSED: "reserved: an operator stopped it for now",
    Status.SUCCEEDED: "ended well; has a result",
    Status.FAILED: "ended badly for good; `failure` says how",
    Status.CANCELED: "ended on request",
}

VERBS = {
    Verb.DUE: "its time has come",
    Verb.CLAIM: "a worker takes its lease",
    Verb.SUCCEED: "the handler returned",
    Verb.FAIL: "it failed and will not be tried again",
    Verb.BACKOFF: "it failed and will be tried again",
    Verb.SNOOZE: "the handler asked to be called later",
    Verb.RELEASE: "its worker stopped and gave it back",
    Verb.REAP: "its worker died",
    Verb.CRASH: "its worker died once too often",
    Verb.STOP: "it ended on request",
    Verb.CANCEL: "an operator asked for its end",
    Verb.EXPIRE: "it waited too long",
    Verb.RETRY: "an operator reopened it",
}

FAILURES = {
    Failure.EXHAUSTED: "its handler failed `max_attempts` times",
    Failure.FATAL: "an error that is never retried",
    Failure.TIMEOUT: "the last allowed attempt ran out of time",
    Failure.CRASHED: "its worker process died `max_crashes` times",
    Failure.EXPIRED: "it had not started before `expires`",
    Failure.NONDETERMINISM: "reserved: a replay left the recorded path",
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


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            "# The life of a run",
            "",
            "Made by `tools/make_docs.py` from `src/windlass/domain/states.py`, the table that",
            "decides; do not edit. What is not in the table is refused, with an error that names",
            "the run, its status and the verb.",
            "",
            *_diagram(),
            "",
            *_table("status", "meaning", {s.value: t for s, t in STATUSES.items()}),
            "",
            "A cancel of a running run does not move it: the wish is recorded, its worker is told,",
            "and the first recorded outcome wins. Whatever would have sent the run round again",
            "(backoff, snooze, release, reap) then ends it as canceled. A succeeded run can be",
            "retried only once retention has marked it stale.",
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
            "- `crash_count`: how often its worker died. `max_crashes` limits it.",
            "- A graceful shutdown counts nowhere; its attempt is recorded as interrupted.",
            "",
            "An operator's retry starts `failures` and `crash_count` at zero; `attempt`, the token",
            "and the numbering of events go on.",
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


def _diagram() -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> scheduled: enqueue, not yet due"]
    lines.append("    [*] --> queued: enqueue")
    for status, verbs in TRANSITIONS.items():
        grouped: dict[Status, list[str]] = {}
        for verb, target in verbs.items():
            if target is not status:
                grouped.setdefault(target, []).append(verb.value)
        for target, names in grouped.items():
            lines.append(f"    {status.value} --> {target.value}: {', '.join(names)}")
    return [*lines, "```"]


def _table(left: str, right: str, rows: dict[str, str], *, code: bool = True) -> list[str]:
    mark = "`" if code else ""
    return [
        f"| {left} | {right} |",
        "|---|---|",
        *[f"| {mark}{name}{mark} | {text} |" for name, text in rows.items()],
    ]


def main() -> int:
    """Write the page, or say whether it is up to date."""
    made = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text("utf-8") != made:
            print(f"{PAGE.name} is not up to date: run `python tools/make_docs.py`")
            return 1
        return 0
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
