"""Whose fault is it that a worker died?

Of the runs that a worker held when it died, at most one is to blame, and nobody knows which. So
each has `crash_count` + 1, and from the first crash on a run is a *suspect*: it runs in a child
process of its own, where it can harm nobody else, and where a death is its own beyond doubt. Only
certain crashes are held against a run:

- its child died while the worker lived (`Outcome.CRASHED`), or its worker died and held no other
  run: the run is given up once `crash_count` has reached `max_crashes`;
- its worker died and held other runs too: that says nothing about a suspect in a child. It is
  given up for it only at ten times the limit, so that even a run that takes its whole machine
  down with it, neighbours and all, comes to an end.

A suspect that no fresh process can find runs in the worker itself, in a group of suspects that has
the worker to itself. Each crash halves the group (`group_size`), so a run that kills its worker is
alone after log2 of their number, and the others come through: a group is down to one run at the
ninth crash at the latest, before ten times `max_crashes` gives anybody up.

A run that ends its worker without killing it is blamed like one that does (`WorkerDisrupted`): all
that run on the loop or in threads of a worker that a handler stops have crashed, and it is certain
where there was only one, or where the stop came from a child process.

A run that blocks its worker's event loop for a lease has crashed, and that is certain. If it is not
known which one it is, all on the loop have, and it is not (`engine/vouching.py`).

With `max_crashes` = 1 the first crash is one too many, whoever is to blame. PostgreSQL has the
same rule in `330_reap.sql`.
"""

from windlass.domain.states import Verb

AMONG_OTHERS = 10
_MOST_TOGETHER = 512


def is_suspect(crash_count: int) -> bool:
    """Whether the next attempt must be kept away from other runs."""
    return crash_count > 0


def group_size(suspects: int, *, crashes: int, cleared: int = 0) -> int:
    """How many of these suspects, with so many crashes each, may run together in one worker.

    Half of them: should the worker die again, the other half is cleared. `cleared`: of the same
    crowd as many have just come through, so the others are the other half.

    >>> group_size(20, crashes=1), group_size(10, crashes=2), group_size(1, crashes=5)
    (10, 5, 1)
    """
    half = max((suspects + 1) // 2, min(suspects, cleared))
    return max(1, min(half, _MOST_TOGETHER >> crashes))


def after_lost_worker(crashes: int, *, alone: bool, max_crashes: int) -> Verb:
    """What becomes of a run whose worker died, at its n-th crash; `alone`: it held no other."""
    limit = max_crashes if alone or max_crashes == 1 else max_crashes * AMONG_OTHERS
    return Verb.CRASH if crashes >= limit else Verb.REAP
