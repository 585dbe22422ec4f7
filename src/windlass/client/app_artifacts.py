"""`app.artifacts`: the verbs of artifacts on both faces, and the two ways to open one."""

from functools import partial

from windlass.artifacts.flows import Which
from windlass.artifacts.reading import ArtifactReader, AsyncArtifactReader
from windlass.client.artifact_faces import ArtifactFaces
from windlass.client.artifacts import ArtifactVerbs
from windlass.client.scope import Scope
from windlass.offloop import off_loop


class AppArtifacts(ArtifactFaces):
    """The artifacts of an application: `app.artifacts.get("report.csv", run=run.id)`.

    Each method has an async twin with an `a`.
    """

    __slots__ = ("_flows", "_scope")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._flows = ArtifactVerbs(scope)

    @property
    def _verbs(self) -> ArtifactVerbs:
        return self._flows

    def open(
        self, which: Which, *, run: str | None = None, offset: int = 0, length: int | None = None
    ) -> ArtifactReader:
        """Read an artifact in chunks, or a part of it: `with app.artifacts.open(…) as f`.

        `f.read(size)` returns the next bytes, `for chunk in f` all of them.
        """
        artifact = self._flows.perform(self._flows.located(which, run))
        return self._scope.ground.shelf.read(artifact, offset, length)

    def aopen(
        self, which: Which, *, run: str | None = None, offset: int = 0, length: int | None = None
    ) -> AsyncArtifactReader:
        """As `open`, in async code: `async with app.artifacts.aopen(…) as f`."""

        async def opening() -> ArtifactReader:
            artifact = await self._flows.aperform(self._flows.located(which, run))
            read = partial(self._scope.ground.shelf.read, artifact, offset, length)
            return await off_loop(read, "windlass-artifact")

        return AsyncArtifactReader(opening)
