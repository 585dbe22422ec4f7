"""Runs that start when others have ended: see `domain/follower.py`."""

from collections.abc import Sequence

from windlass.domain.follower import FollowRow
from windlass.store.operations.declare import read


class FollowerOperations:
    """What comes after what."""

    @read()
    def list_follows(
        self, tenant: str, run: str, followers: bool, limit: int
    ) -> Sequence[FollowRow]:
        """The runs that a run comes after, in the order given; or those that come after it, by id.

        Of an unknown run there are none.
        """
