"""The two faces of JobVerbs: generated from files/verbs.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.run import Run
    from windlass.files.stored import StoredJob
    from windlass.files.verbs import JobVerbs


class JobFaces:
    """Every verb of JobVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> JobVerbs:
        """The flows."""
        ...

    def stored(self) -> Sequence[StoredJob]:
        """Every job that a worker has ever had, by name; its code need not be here."""
        verbs = self._verbs
        return verbs.perform(verbs.stored())

    async def astored(self) -> Sequence[StoredJob]:
        """As `stored`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.stored())

    def look_up(self, name: str) -> StoredJob | None:
        """A job as the store knows it, or None if no worker has ever had it."""
        verbs = self._verbs
        return verbs.perform(verbs.look_up(name))

    async def alook_up(self, name: str) -> StoredJob | None:
        """As `look_up`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.look_up(name))

    def runs(self, name: str) -> Sequence[Run]:
        """The last 50 runs of a job, newest first. Raises UnknownJob."""
        verbs = self._verbs
        return verbs.perform(verbs.runs(name))

    async def aruns(self, name: str) -> Sequence[Run]:
        """As `runs`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.runs(name))
