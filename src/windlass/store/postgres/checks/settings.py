"""Is anything set, for this role or another, by which calls fail or the store's clock lies?

Settings that merely change how values are written make no difference. These do, and are left as
they are: whoever made a database read-only, or limits statements, may have a reason.
"""

from collections.abc import Iterator, Mapping, Sequence

from windlass.domain.checkup import Finding, error, fine, note, warning
from windlass.duration import format_duration
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import Asking

FAKE_NOW = "windlass.fake_now"
_SHORT = 5.0  # seconds: calls take milliseconds, but a large batch may take one of these
_CUTS = {
    "statement_timeout": "statements",
    "lock_timeout": "waits for locks",
    "transaction_timeout": "transactions",
}


def checks(ask: Asking) -> Iterator[Check]:
    """The settings of our sessions, and of everybody else's in this database."""
    yield Check(name="settings", look=lambda _: _check_settings(ask), needs=Needs.STORE)


def _check_settings(ask: Asking) -> Iterator[Finding]:
    ours = {name: value for name, value in ask.rows("session_settings") if value is not None}
    others = [(scope, *s.split("=", 1)) for scope, s in _scoped(ask)]
    told = [*_refusing(ours, others), *_hindering(ours), *_lying(ours, others)]
    yield from told or [fine("No setting of the session stands in the way.")]


def _scoped(ask: Asking) -> Iterator[tuple[str, str]]:
    """What is set for roles and databases, and for whom."""
    for database, role, setting in ask.rows("stored_settings"):
        named = [f"role {role}" * bool(role), f"database {database}" * bool(database)]
        yield " in ".join(filter(None, named)) or "everybody", setting


def _refusing(ours: Mapping[str, str], others: Sequence[Sequence[str]]) -> Iterator[Finding]:
    name = "default_transaction_read_only"
    scopes = [scope for scope, setting, value in others if setting == name and value == "on"]
    if ours.get(name) == "on":
        yield error(
            f"{name} is on: nothing can be enqueued, claimed or ended.",
            f"Reset it: alter role … reset {name}, or alter database …; then restart the workers.",
        )
    elif scopes:
        text = f"{name} is on for {', '.join(scopes)}: they can enqueue and run nothing."
        yield warning(text, f"Reset it where that is not wanted: alter role … reset {name}.")


def _hindering(ours: Mapping[str, str]) -> Iterator[Finding]:
    level = ours.get("default_transaction_isolation", "read committed")
    if level != "read committed":
        yield note(
            f"Transactions are {level} by default: each call says that its own is not, and takes "
            "more round trips.",
            "Give Windlass a role whose default_transaction_isolation is 'read committed'.",
        )
    for name, what in _CUTS.items():
        seconds = int(ours.get(name, "0")) / 1000
        if 0 < seconds < _SHORT:
            yield warning(
                f"{name} ends {what} after {format_duration(seconds)}: a large call may never end.",
                f"Set {name} to {format_duration(_SHORT)} or more for this role.",
            )
    seconds = int(ours.get("idle_session_timeout", "0")) / 1000
    if seconds:
        yield note(
            f"idle_session_timeout ends idle sessions after {format_duration(seconds)}: wake-ups "
            "are lost until the listener is back, and workers poll meanwhile.",
            "Set it to 0 for this role.",
        )


def _lying(ours: Mapping[str, str], others: Sequence[Sequence[str]]) -> Iterator[Finding]:
    scopes = [scope for scope, setting, _ in others if setting == FAKE_NOW]
    # It counts for the owner of the schema and members of that role, but who is that tomorrow?
    harm = "such workers may count by a clock that stands, and others take them for dead"
    for scope in scopes:
        yield error(
            f"{FAKE_NOW} is set for {scope}: {harm}.",
            f"Reset it: alter {scope.partition(' in ')[0]} reset {FAKE_NOW}. It is for tests.",
        )
    if ours.get(FAKE_NOW) and not scopes:
        yield error(
            f"{FAKE_NOW} is {ours[FAKE_NOW]} in this session: {harm}.",
            "Take it out of the URL's options, or of the server's configuration. It is for tests.",
        )
