"""What is known of bytes that are kept elsewhere."""

from windlass.domain.artifact import Artifact
from windlass.domain.run import Held
from windlass.store.operations.declare import read, write


class ArtifactOperations:
    """Artifacts: their names and where they are."""

    @write(patient=True)
    def put_artifact(self, artifact: Artifact) -> Artifact:
        """Record one; an id that is known stays as it is. Answers with what is stored."""

    @read(for_handlers=True)
    def get_artifact(self, tenant: str, artifact: str) -> Artifact | None:
        """One artifact, by id."""

    @write(repeatable=False, patient=True)
    def delete_artifact(self, tenant: str, artifact: str) -> bool:
        """Forget one; false where there is none."""

    @write(repeatable=False, patient=True, for_handlers=True)
    def delete_artifact_under(self, held: Held, artifact: str) -> bool | None:
        """Forget one for a run of its tenant, under its token; None: the lease is lost."""
