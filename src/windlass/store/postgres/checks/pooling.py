"""Is there a pooler in between, and does what it breaks matter?

In transaction mode a connection to the server belongs to a client only during a transaction: one
client is then answered by several processes, or several by one. LISTEN has no effect there, and
prepared statements are another client's unless the pooler keeps them apart.
"""

from collections.abc import Iterator
from contextlib import ExitStack

from windlass.domain.checkup import Finding, fine, note, warning
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import connect, told
from windlass.store.postgres.connections import Target, answered_by, is_pooled
from windlass.store.queries import load_queries

_CLIENTS = 3
_TIMES = 3
_PATIENCE = 1.0


def checks(target: Target) -> Iterator[Check]:
    """The way to the server, and wake-ups."""
    yield Check(name="pooler", look=lambda _: _way(target), needs=Needs.STORE)
    yield Check(name="wake-ups", look=lambda _: _wakeups(target), needs=Needs.STORE)


def _way(target: Target) -> Iterator[Finding]:
    pooled, shared = find_pooler(target, target.conninfo)
    if not pooled:
        yield fine("There is no pooler between here and the server.")
    elif not shared:
        yield note("There is a pooler in between, in session mode as it seems.")
    elif target.prepare:
        yield note(
            "There is a pooler in transaction mode in between, and the URL says prepare=on.",
            "Leave that out unless the pooler keeps prepared statements apart (PgBouncer from "
            "1.21 on does, with max_prepared_statements above 0).",
        )
    else:
        yield note("There is a pooler in transaction mode in between; nothing is prepared there.")


def _wakeups(target: Target) -> Iterator[Finding]:
    shared = find_pooler(target, target.listen)[1]
    slow = "idle workers find new runs when they poll, not at once"
    if shared and target.listen == target.conninfo:
        advice = "Give the URL listen_url=…, a direct way to the server; or let it be."
        yield note(f"LISTEN does not work through the pooler: {slow}.", advice)
    elif shared:
        advice = "Let listen_url name the server itself."
        yield warning(f"The listen_url leads through a pooler in transaction mode: {slow}.", advice)
    elif _heard(target):
        yield fine("Workers are woken as soon as there is something to do.")
    else:
        advice = "Let listen_url name the server itself."
        yield warning(f"No notification came through: {slow}.", advice)


def find_pooler(target: Target, conninfo: str) -> tuple[bool, bool]:
    """Whether there is a pooler, and whether clients share one connection of it."""
    with ExitStack() as stack, told("a look for poolers"):
        clients = [stack.enter_context(connect(conninfo, target)) for _ in range(_CLIENTS)]
        pooled = any(is_pooled(client) for client in clients)
        answers = [{answered_by(client) for _ in range(_TIMES)} for client in clients]
        # In session mode each has one process, and none has another's.
        own = {pid for pids in answers if len(pids) == 1 for pid in pids}
        return pooled, pooled and len(own) < _CLIENTS


def _heard(target: Target) -> bool:
    sql = load_queries("postgres")
    with told("a notification"), connect(target.listen, target) as conn:
        conn.execute(sql["listen_once"])
        conn.execute(sql["notify_once"])
        return any(True for _ in conn.notifies(timeout=_PATIENCE, stop_after=1))
