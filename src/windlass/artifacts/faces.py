"""`ctx.artifacts`: awaited in async handlers, plain in threads."""

from collections.abc import AsyncIterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from windlass.artifacts.chunks import AnyData, Crossing, Data, chunks_of
from windlass.artifacts.flows import Artifacts as Flows
from windlass.artifacts.flows import Which
from windlass.artifacts.reading import ArtifactReader, AsyncArtifactReader
from windlass.artifacts.shelf import Shelf
from windlass.domain.artifact import Artifact, check_artifact_name
from windlass.domain.run import Held
from windlass.offloop import off_loop
from windlass.store.flow import Flow, adrive, drive
from windlass.store.operations import Call, Operations

T = TypeVar("T")


class Desk(Protocol):
    """Where a context has its calls done, and its bytes kept."""

    @property
    def operations(self) -> Operations: ...

    @property
    def shelf(self) -> Shelf: ...

    def run(self, call: Call[T]) -> T: ...

    async def arun(self, call: Call[T]) -> T: ...


class _Base:
    __slots__ = ("_desk", "_flows", "_held")

    def __init__(self, desk: Desk, held: Held) -> None:
        self._desk = desk
        self._held = held
        self._flows = Flows(desk.operations, desk.shelf, held.tenant, held.id)


class Artifacts(_Base):
    """The artifacts of a run, for async handlers.

    An artifact is named by its name in this run, or by a pointer to one of any run.
    """

    __slots__ = ()

    async def put(self, name: str, data: AnyData, *, content_type: str | None = None) -> Artifact:
        """Keep bytes under a name, and return the pointer to them.

        `data` is bytes, a Path, an open file, or an iterator of bytes, async or not. It takes the
        place of the run's artifact of that name. Raises ArtifactTooLarge, and LeaseLost if another
        worker has the run by now: then nothing is kept.
        """
        check_artifact_name(name)
        if not isinstance(data, AsyncIterable):
            return await self._do(self._flows.put(name, chunks_of(data), content_type, self._held))
        crossing = Crossing(data)
        try:
            return await self._do(self._flows.put(name, iter(crossing), content_type, self._held))
        finally:
            crossing.is_over = True

    async def get(self, which: Which) -> bytes:
        """All bytes of an artifact, checked. Raises ArtifactNotFound and ArtifactDamaged."""
        return await self._do(self._flows.get(which))

    def open(
        self, which: Which, *, offset: int = 0, length: int | None = None
    ) -> AsyncArtifactReader:
        """Read an artifact in chunks, or a part of it: `async with ctx.artifacts.open(…) as f`.

        `await f.read(size)` returns the next bytes, `async for chunk in f` all of them.
        """

        async def opening() -> ArtifactReader:
            artifact = await self._do(self._flows.the(which))
            read = partial(self._desk.shelf.read, artifact, offset, length)
            return await off_loop(read, "windlass-artifact")

        return AsyncArtifactReader(opening)

    async def find(self, which: Which) -> Artifact | None:
        """What is known of an artifact, or None."""
        return await self._do(self._flows.find(which))

    async def list(self) -> Sequence[Artifact]:
        """The artifacts of this run, by name."""
        return await self._do(self._flows.all())

    async def delete(self, which: Which) -> bool:
        """Forget an artifact and remove its bytes; returns False if there is none.

        Raises LeaseLost if another worker has the run by now.
        """
        return await self._do(self._flows.delete(which, self._held))

    async def _do(self, flow: Flow[T]) -> T:
        desk: Any = self._desk

        def do(step: Any) -> Any:
            return desk.arun(step) if isinstance(step, Call) else step.arun(desk)

        return await adrive(flow, do)


class SyncArtifacts(_Base):
    """The artifacts of a run, for handlers in threads; see `Artifacts`."""

    __slots__ = ()

    def put(self, name: str, data: Data, *, content_type: str | None = None) -> Artifact:
        """Keep bytes under a name, and return the pointer to them.

        `data` is bytes, a Path, an open file, or an iterator of bytes. It takes the place of the
        run's artifact of that name. Raises ArtifactTooLarge, and LeaseLost if another worker has
        the run by now: then nothing is kept.
        """
        check_artifact_name(name)
        return self._do(self._flows.put(name, chunks_of(data), content_type, self._held))

    def get(self, which: Which) -> bytes:
        """All bytes of an artifact, checked. Raises ArtifactNotFound and ArtifactDamaged."""
        return self._do(self._flows.get(which))

    def open(self, which: Which, *, offset: int = 0, length: int | None = None) -> ArtifactReader:
        """Read an artifact in chunks, or a part of it: `with ctx.artifacts.open(…) as f`.

        `f.read(size)` returns the next bytes, `for chunk in f` all of them.
        """
        return self._desk.shelf.read(self._do(self._flows.the(which)), offset, length)

    def find(self, which: Which) -> Artifact | None:
        """What is known of an artifact, or None."""
        return self._do(self._flows.find(which))

    def list(self) -> Sequence[Artifact]:
        """The artifacts of this run, by name."""
        return self._do(self._flows.all())

    def delete(self, which: Which) -> bool:
        """Forget an artifact and remove its bytes; returns False if there is none.

        Raises LeaseLost if another worker has the run by now.
        """
        return self._do(self._flows.delete(which, self._held))

    def _do(self, flow: Flow[T]) -> T:
        desk: Any = self._desk

        def do(step: Any) -> Any:
            return desk.run(step) if isinstance(step, Call) else step.run(desk)

        return drive(flow, do)
