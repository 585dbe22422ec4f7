"""Followers on PostgreSQL: see `store/operations/followers.py`."""

from collections.abc import Sequence

from windlass.domain.follower import FollowRow
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.statement import Statement, every


def list_follows(
    tenant: str, run: str, followers: bool, limit: int
) -> Statement[Sequence[FollowRow]]:
    """The runs that a run comes after, or those that come after it."""
    parameters = (tenant, id_or_nobody(run), followers, limit)
    return Statement("list_follows", parameters, every(FollowRow))
