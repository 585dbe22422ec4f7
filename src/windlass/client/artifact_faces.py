"""The two faces of ArtifactVerbs: generated from client/artifacts.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.artifacts.chunks import Data
    from windlass.artifacts.flows import Which
    from windlass.client.artifacts import ArtifactVerbs
    from windlass.domain.artifact import Artifact
    from windlass.duration import Duration


class ArtifactFaces:
    """Every verb of ArtifactVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> ArtifactVerbs:
        """The flows."""
        ...

    def put(self, name: str, data: Data, *, content_type: str | None = None) -> Artifact:
        """Keep bytes that belong to no run, and return the pointer to them, e.g. for an input.

        `data` is bytes, a Path, an open file or an iterator of bytes. They stay until you delete
        them.
        """
        verbs = self._verbs
        return verbs.perform(verbs.put(name, data, content_type=content_type))

    async def aput(self, name: str, data: Data, *, content_type: str | None = None) -> Artifact:
        """As `put`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.put(name, data, content_type=content_type))

    def list(self, run: str) -> Sequence[Artifact]:
        """List the artifacts of a run, by name."""
        verbs = self._verbs
        return verbs.perform(verbs.list(run))

    async def alist(self, run: str) -> Sequence[Artifact]:
        """As `list`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.list(run))

    def find(self, which: Which, *, run: str | None = None) -> Artifact | None:
        """What is known of an artifact, or None."""
        verbs = self._verbs
        return verbs.perform(verbs.find(which, run=run))

    async def afind(self, which: Which, *, run: str | None = None) -> Artifact | None:
        """As `find`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.find(which, run=run))

    def get(self, which: Which, *, run: str | None = None) -> bytes:
        """All bytes of an artifact, checked. Raises ArtifactNotFound and ArtifactDamaged."""
        verbs = self._verbs
        return verbs.perform(verbs.get(which, run=run))

    async def aget(self, which: Which, *, run: str | None = None) -> bytes:
        """As `get`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.get(which, run=run))

    def delete(self, which: Which, *, run: str | None = None) -> bool:
        """Forget an artifact and remove its bytes; returns False if there is none."""
        verbs = self._verbs
        return verbs.perform(verbs.delete(which, run=run))

    async def adelete(self, which: Which, *, run: str | None = None) -> bool:
        """As `delete`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.delete(which, run=run))

    def clear(self, run: str) -> int:
        """Forget all artifacts of a run and remove their bytes; returns how many there were."""
        verbs = self._verbs
        return verbs.perform(verbs.clear(run))

    async def aclear(self, run: str) -> int:
        """As `clear`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.clear(run))

    def sweep(self, *, older_than: Duration = "1d") -> int:
        """Remove bytes that a crash has left without a row; returns how many.

        Only bytes older than this are looked at. The folder or bucket must be that of this store
        alone: what another store keeps there has no row in this one.
        """
        verbs = self._verbs
        return verbs.perform(verbs.sweep(older_than=older_than))

    async def asweep(self, *, older_than: Duration = "1d") -> int:
        """As `sweep`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.sweep(older_than=older_than))

    def located(self, which: Which, run: str | None) -> Artifact:
        """An artifact that is to be opened. Raises ArtifactNotFound."""
        verbs = self._verbs
        return verbs.perform(verbs.located(which, run))

    async def alocated(self, which: Which, run: str | None) -> Artifact:
        """As `located`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.located(which, run))
