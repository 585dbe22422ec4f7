"""The two faces of JobVerbs: generated from files/verbs.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.run import Run
    from windlass.files.verbs import JobVerbs


class JobFaces:
    """Every verb of JobVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> JobVerbs:
        """The flows."""
        ...

    def runs(self, name: str) -> Sequence[Run]:
        """The last 50 runs of a job, newest first. Raises UnknownJob."""
        verbs = self._verbs
        return verbs.perform(verbs.runs(name))

    async def aruns(self, name: str) -> Sequence[Run]:
        """As `runs`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.runs(name))
