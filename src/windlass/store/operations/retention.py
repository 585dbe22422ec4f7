"""What is over and goes away: see `domain/retention.py`."""

from collections.abc import Sequence

from windlass.domain.retention import Growth, Pruned, StoreTerms, Tidied
from windlass.store.operations.declare import scan, write


class RetentionOperations:
    """The calls of janitors, and of those who delete by hand."""

    @write()
    def tidy(self, terms: StoreTerms, limit: int) -> Tidied:
        """Do what is due of the chores, at most about so many runs or rows.

        ``terms`` count for jobs whose definition says nothing. Chores, and runs, that somebody else
        has locked are skipped.
        """

    @write(patient=True)
    def delete_runs(self, tenant: str, runs: Sequence[str]) -> Pruned:
        """Delete runs that have ended, with everything that hangs on them.

        Those that are live, or that others need, stay; so do those that somebody has locked.
        """

    @scan()
    def measure_growth(self, tenant: str) -> Growth:
        """How large the store is, and since when it keeps runs."""
