"""What is known of bytes that are kept elsewhere: see `domain/artifact.py`."""

from collections.abc import Sequence

from windlass.domain.artifact import Artifact, PutArtifact
from windlass.domain.run import Held
from windlass.store.operations.declare import read, write


class ArtifactOperations:
    """Artifacts: their names and where they are."""

    @write(patient=True)
    def put_artifact(self, artifact: Artifact) -> Artifact:
        """Record one; an id that is known stays as it is. Answers with what is stored."""

    @write(patient=True, for_handlers=True)
    def put_artifact_under(self, held: Held, artifact: Artifact) -> PutArtifact:
        """Record one of a run, under its token; it takes the place of the run's one of that name.

        One with the same bytes stays as it is, so that a handler that runs again gets the pointer
        that it got before.
        """

    @read(for_handlers=True)
    def get_artifact(self, tenant: str, artifact: str) -> Artifact | None:
        """One artifact, by id."""

    @read(for_handlers=True)
    def find_artifact(self, tenant: str, run: str, name: str) -> Artifact | None:
        """One artifact of a run, by name."""

    @read(for_handlers=True)
    def list_artifacts(
        self, tenant: str, run: str, after: str | None, limit: int
    ) -> Sequence[Artifact]:
        """The artifacts of a run by name, those after this one."""

    @read()
    def known_artifacts(self, tenant: str, artifacts: Sequence[str]) -> Sequence[str]:
        """Which of these ids are known: of the others the bytes may go."""

    @write(repeatable=False, patient=True)
    def delete_artifact(self, tenant: str, artifact: str) -> bool:
        """Forget one; false where there is none."""

    @write(repeatable=False, patient=True, for_handlers=True)
    def delete_artifact_under(self, held: Held, artifact: str) -> bool | None:
        """Forget one for a run of its tenant, under its token; None: the lease is lost."""

    @write(patient=True)
    def forget_artifacts(self, tenant: str, run: str, limit: int) -> Sequence[Artifact]:
        """Forget artifacts of a run, some at a time; answers with those, whose bytes may go."""
