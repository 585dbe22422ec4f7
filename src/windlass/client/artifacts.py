"""`app.artifacts`: for programs that put, read and delete artifacts outside of handlers."""

from collections.abc import Sequence
from datetime import timedelta

from windlass.artifacts.chunks import Data, chunks_of
from windlass.artifacts.flows import Artifacts, Which
from windlass.client.filters import check_id
from windlass.client.scope import Verbs
from windlass.domain.artifact import Artifact, check_artifact_name
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption
from windlass.store.flow import Flow

LEAST_GRACE = 60.0
"""Seconds that a sweep waits at least: bytes are there a moment before their row is."""


class ArtifactVerbs(Verbs):
    """What can be done with artifacts, as flows. A name needs the run that it is a name in."""

    __slots__ = ()

    def put(self, name: str, data: Data, *, content_type: str | None = None) -> Flow[Artifact]:
        """Keep bytes that belong to no run, and return the pointer to them, e.g. for an input.

        `data` is bytes, a Path, an open file or an iterator of bytes. They stay until you delete
        them.
        """
        check_artifact_name(name)
        flow = self._of(None).put(name, chunks_of(data), content_type, None)
        return (yield from flow)

    def list(self, run: str) -> Flow[Sequence[Artifact]]:
        """List the artifacts of a run, by name."""
        return (yield from self._of(run).all())

    def find(self, which: Which, *, run: str | None = None) -> Flow[Artifact | None]:
        """What is known of an artifact, or None."""
        return (yield from self._named(which, run).find(which))

    def get(self, which: Which, *, run: str | None = None) -> Flow[bytes]:
        """All bytes of an artifact, checked. Raises ArtifactNotFound and ArtifactDamaged."""
        return (yield from self._named(which, run).get(which))

    def delete(self, which: Which, *, run: str | None = None) -> Flow[bool]:
        """Forget an artifact and remove its bytes; returns False if there is none."""
        return (yield from self._named(which, run).delete(which, None))

    def clear(self, run: str) -> Flow[int]:
        """Forget all artifacts of a run and remove their bytes; returns how many there were."""
        return (yield from self._of(run).clear())

    def sweep(self, *, older_than: Duration = "1d") -> Flow[int]:
        """Remove bytes that a crash has left without a row; returns how many.

        Only bytes older than this are looked at. The folder or bucket must be that of this store
        alone: what another store keeps there has no row in this one.
        """
        grace = parse_duration(older_than)
        if grace < LEAST_GRACE:
            raise BadOption("older_than", "it must be at least a minute: a put may be under way")
        before = self._scope.sources.now() - timedelta(seconds=grace)
        return (yield from self._of(None).sweep(before))

    def located(self, which: Which, run: str | None) -> Flow[Artifact]:
        """An artifact that is to be opened. Raises ArtifactNotFound."""
        return (yield from self._named(which, run).the(which))

    def _named(self, which: Which, run: str | None) -> Artifacts:
        if not isinstance(which, Artifact) and run is None:
            raise BadOption("run", "say in which run this is a name, or give a pointer")
        return self._of(run)

    def _of(self, run: str | None) -> Artifacts:
        scope = self._scope
        ident = None if run is None else check_id(run)
        return Artifacts(scope.store.operations, scope.ground.shelf, scope.tenant, ident)
