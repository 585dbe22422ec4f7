"""What is done with artifacts, once for both faces: generators, see `store/flow.py`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Generic, TypeVar

from windlass.artifacts.shelf import Shelf, Written, id_in, key_of
from windlass.domain.artifact import Artifact, PutArtifact
from windlass.domain.run import Held
from windlass.errors import ArtifactNotFound, LeaseLost
from windlass.offloop import off_loop
from windlass.store.flow import Flow
from windlass.store.operations import Operations

T = TypeVar("T")

Which = str | Artifact
"""An artifact by its name in a run, or by its pointer."""

CONTENT_TYPE = "application/octet-stream"
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Outside(Generic[T]):
    """Work on the place, which blocks."""

    action: Callable[[], T]

    def run(self, store: object) -> T:
        """Do it here."""
        return self.action()

    async def arun(self, store: object) -> T:
        """Do it beside the loop."""
        return await off_loop(self.action, "windlass-artifact")


class Artifacts:
    """The artifacts of a tenant, as flows; `run` is whose names are meant."""

    def __init__(self, operations: Operations, shelf: Shelf, tenant: str, run: str | None) -> None:
        self._operations = operations
        self._shelf = shelf
        self._tenant = tenant
        self._run = run

    def put(
        self, name: str, chunks: Iterator[bytes], content_type: str | None, held: Held | None
    ) -> Flow[Artifact]:
        """Keep bytes: first these, then the row, under the lease of the run that they are of.

        The name was checked before. Raises LeaseLost: then there is no row, and the bytes go.
        """
        shelf, ident = self._shelf, self._shelf.new_id()
        key = key_of(self._tenant, self._run, ident)
        written: Written = yield Outside(partial(shelf.write, name, key, chunks))
        made = Artifact(
            id=ident,
            name=name,
            content_type=content_type or CONTENT_TYPE,
            size=written.size,
            sha256=written.sha256,
            location=key,
            tenant=self._tenant,
            run=self._run,
        )
        if held is None:
            stored: Artifact = yield self._operations.put_artifact(made)
            return stored
        put: PutArtifact = yield self._operations.put_artifact_under(held, made)
        if put.artifact is None or put.artifact.id != ident:
            yield Outside(partial(shelf.remove, key))
        if put.replaced is not None:
            yield Outside(partial(shelf.remove, put.replaced.location))
        if put.artifact is None:
            raise LeaseLost(held.id, held.token)
        return put.artifact

    def find(self, which: Which) -> Flow[Artifact | None]:
        """What is known of an artifact. A pointer is read again: it may be out of date."""
        if isinstance(which, Artifact):
            found: Artifact | None = yield self._operations.get_artifact(self._tenant, which.id)
        else:
            assert self._run is not None, "names are those of a run"
            found = yield self._operations.find_artifact(self._tenant, self._run, which)
        return found

    def the(self, which: Which) -> Flow[Artifact]:
        """The same. Raises ArtifactNotFound."""
        found = yield from self.find(which)
        if found is None:
            name = which.name if isinstance(which, Artifact) else which
            raise ArtifactNotFound(name, which.run if isinstance(which, Artifact) else self._run)
        return found

    def get(self, which: Which) -> Flow[bytes]:
        """All bytes of an artifact, checked."""
        artifact = yield from self.the(which)
        data: bytes = yield Outside(partial(self._shelf.read_whole, artifact))
        return data

    def delete(self, which: Which, held: Held | None) -> Flow[bool]:
        """Forget an artifact, then remove its bytes; false if there is none."""
        found = yield from self.find(which)
        ident = found.id if found is not None else which.id if isinstance(which, Artifact) else ""
        if held is not None:
            # Asked even if there is none: it tells who has no lease any more.
            deleted = yield self._operations.delete_artifact_under(held, ident)
            if deleted is None:
                raise LeaseLost(held.id, held.token)
        else:
            deleted = yield self._operations.delete_artifact(self._tenant, ident)
        if found is not None and deleted:
            yield Outside(partial(self._shelf.remove, found.location))
        return bool(deleted)

    def all(self) -> Flow[Sequence[Artifact]]:
        """The artifacts of the run, by name."""
        assert self._run is not None, "names are those of a run"
        found: list[Artifact] = []
        after: str | None = None
        while True:
            page = yield self._operations.list_artifacts(self._tenant, self._run, after, _PAGE)
            found += page
            if len(page) < _PAGE:
                return found
            after = page[-1].name

    def clear(self) -> Flow[int]:
        """Forget all artifacts of the run, and remove their bytes; returns how many there were.

        Whoever deletes a run calls this first: rows go before their bytes, so that a crash leaves
        bytes for the sweep and never a row without bytes.
        """
        assert self._run is not None, "names are those of a run"
        count = 0
        while True:
            gone = yield self._operations.forget_artifacts(self._tenant, self._run, _PAGE)
            for artifact in gone:
                yield Outside(partial(self._shelf.remove, artifact.location))
            count += len(gone)
            if len(gone) < _PAGE:
                return count

    def sweep(self, before: datetime) -> Flow[int]:
        """Remove bytes that were written before then and have no row; returns how many.

        Time enough must have passed since: bytes are there a moment before their row is.
        """
        place = self._shelf.place
        removed: int = yield Outside(partial(place.clear, before))
        old = (kept.key for kept in place.kept(self._tenant) if kept.at < before)
        while True:
            keys: list[str] = yield Outside(lambda: list(islice(old, _PAGE)))
            if not keys:
                return removed
            ids = [id_in(key) for key in keys]
            known = frozenset((yield self._operations.known_artifacts(self._tenant, ids)))
            for key, ident in zip(keys, ids, strict=True):
                if ident not in known:
                    yield Outside(partial(self._shelf.remove, key))
                    removed += 1
