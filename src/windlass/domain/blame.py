"""Whose fault is it that a worker died?

Of the runs that a worker held when it died, one at most is to blame, and nobody knows which. So
each has `crash_count` + 1, and from the first crash on a run is a *suspect*: it is run alone in a
child process, where it can harm nobody else, and where a death is its own beyond doubt. Only what
is certain is held against a run:

- its child died while the worker lived (`Outcome.CRASHED`), or its worker died and held no other
  run: the run is given up once `crash_count` has reached `max_crashes`;
- its worker died and held others too: that says nothing of a suspect, which ran in a child. It is
  given up for it only at ten times the limit, so that even a run that takes its whole machine
  down with it, neighbours and all, comes to an end.

With `max_crashes` = 1 the first crash is one too many, whoever is to blame. PostgreSQL has the
same rule in `330_reap.sql`.
"""

from windlass.domain.states import Verb

AMONG_OTHERS = 10


def is_suspect(crash_count: int) -> bool:
    """Whether the next attempt must be made alone."""
    return crash_count > 0


def after_lost_worker(crashes: int, *, alone: bool, max_crashes: int) -> Verb:
    """What becomes of a run whose worker died, at its n-th crash; `alone`: it held no other."""
    limit = max_crashes if alone or max_crashes == 1 else max_crashes * AMONG_OTHERS
    return Verb.CRASH if crashes >= limit else Verb.REAP
