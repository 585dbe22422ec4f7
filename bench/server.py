"""What PostgreSQL itself spends: the CPU time of the processes that serve us."""

from pathlib import Path

import psycopg

_BACKENDS = """
select pid from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend'
   and pid <> pg_backend_pid()
"""


def cpu_of_backends(url: str) -> float | None:
    """Seconds that the connections to this database have used so far; None: not on this machine."""
    with psycopg.connect(url, autocommit=True) as conn:
        places = [Path(f"/proc/{pid}/schedstat") for (pid,) in conn.execute(_BACKENDS)]
    try:
        return sum(int(place.read_text().split()[0]) for place in places) / 1e9
    except OSError:
        return None
