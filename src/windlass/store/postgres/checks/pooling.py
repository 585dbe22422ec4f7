"""Is there a pooler in between, and does what it breaks matter?

In transaction mode a connection to the server belongs to a client only during a transaction: one
client is then answered by several processes, or several by one. LISTEN has no effect there, and
prepared statements are another client's unless the pooler keeps them apart.

In session mode a client keeps its connection, idle or not. Those who come when none is left are let
in and then hear nothing: a worker that has fewer than it needs stands still.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from windlass.domain.checkup import Finding, fine, note, warning
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import connect, told
from windlass.store.postgres.connections import WORKER_CONNECTIONS, SyncPool, answered_by, is_pooled
from windlass.store.postgres.patient import PatientConnection, Silence
from windlass.store.postgres.target import Target
from windlass.store.queries import load_queries

_CLIENTS = 3
_TIMES = 3
_PATIENCE = 1.0


def checks(target: Target, pool: SyncPool) -> Iterator[Check]:
    """The way to the server, and wake-ups."""
    yield Check(name="pooler", look=lambda _: _way(target, pool), needs=Needs.STORE)
    yield Check(name="wake-ups", look=lambda _: _wakeups(target), needs=Needs.STORE)


def _way(target: Target, pool: SyncPool) -> Iterator[Finding]:
    pool.close()  # or those of the checks before this one would be missing
    way = find_way(target, target.conninfo)
    if not way.pooled:
        yield fine("There is no pooler between here and the server.")
    elif not way.shared:
        yield _judge_session_mode(target, way)
    elif target.prepare:
        yield note(
            "There is a pooler in transaction mode in between, and the URL says prepare=on.",
            "Leave that out unless the pooler keeps prepared statements apart (PgBouncer from "
            "1.21 on does, with max_prepared_statements above 0).",
        )
    else:
        yield note("There is a pooler in transaction mode in between; nothing is prepared there.")


def _judge_session_mode(target: Target, way: "Way") -> Finding:
    kinds = dict(WORKER_CONNECTIONS)
    if target.listen != target.conninfo:
        kinds.pop("wake-ups")
    needed = sum(kinds.values())
    need = (
        f"a worker process takes up to {needed} of its connections "
        f"({', '.join(f'{number} for {kind}' for kind, number in kinds.items())})"
    )
    advice = (
        f"Let its pool have {needed} for each worker process, and more for your own programs "
        "(PgBouncer: default_pool_size); or let it pool transactions."
    )
    text = f"There is a pooler in between, in session mode as it seems: {need}"
    if way.answers >= needed:
        return note(f"{text}.", advice)
    text = f"{text}, and it had {way.answers} free"
    # Others, such as workers that run, may have the rest.
    if way.sessions >= needed:
        return note(f"{text}.", advice)
    return warning(f"{text}: a worker would stand still.", advice)


def _wakeups(target: Target) -> Iterator[Finding]:
    shared = find_way(target, target.listen).shared
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


class Way(NamedTuple):
    """What is between here and the server: a pooler, one connection of which clients share.

    ``answers``: how many clients were answered at the same time; no more than a worker has.
    ``sessions``: how many sessions the database had then, ours among them.
    """

    pooled: bool
    shared: bool
    answers: int
    sessions: int


def find_way(target: Target, conninfo: str) -> Way:
    """Open connections, a few or as many as a worker has, and see who answers on them."""
    most = sum(WORKER_CONNECTIONS.values())
    pids: list[set[int]] = []
    pooled = False
    sessions = 0
    with ExitStack() as stack, told("a look for poolers"):
        while len(pids) < most:
            try:
                # Not as a context of its own, which would talk to a server that does not answer.
                client = stack.enter_context(closing(_brief(conninfo, target)))
                pooled = pooled or is_pooled(client)
                pids.append({answered_by(client) for _ in range(_TIMES)})
                sessions = _count_sessions(client)
            except Silence:
                if not pids:
                    raise
                break  # there are no more
            if len(pids) >= _CLIENTS and (not pooled or _are_shared(pids)):
                break
    shared = pooled and len(pids) >= _CLIENTS and _are_shared(pids)
    return Way(pooled, shared, len(pids), sessions)


def _brief(conninfo: str, target: Target) -> PatientConnection:
    """One that waits for an answer no longer than a checkup has time."""
    conn = connect(conninfo, target)
    conn.stall = min(target.stall, _PATIENCE)
    return conn


def _count_sessions(client: PatientConnection) -> int:
    (number,) = client.execute(load_queries("postgres")["sessions"]).fetchone() or (0,)
    return int(str(number))


def _are_shared(pids: Sequence[set[int]]) -> bool:
    """In session mode each has one process, and none has another's."""
    own = {pid for each in pids if len(each) == 1 for pid in each}
    return len(own) < len(pids)


def _heard(target: Target) -> bool:
    sql = load_queries("postgres")
    with told("a notification"), connect(target.listen, target) as conn:
        conn.execute(sql["listen_once"])
        conn.execute(sql["notify_once"])
        return any(True for _ in conn.notifies(timeout=_PATIENCE, stop_after=1))
