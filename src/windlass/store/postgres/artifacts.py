"""What is known of artifacts, on PostgreSQL: see `store/operations/artifacts.py`."""

from collections.abc import Sequence

from windlass.domain.artifact import Artifact, PutArtifact
from windlass.domain.run import Held
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.statement import Statement, every, first, one, value


def put_artifact(artifact: Artifact) -> Statement[Artifact]:
    """Record one."""
    parameters = (
        artifact.tenant,
        artifact.id,
        artifact.name,
        artifact.content_type,
        artifact.size,
        artifact.sha256,
        artifact.location,
        artifact.run,
    )
    return Statement("put_artifact", parameters, one(Artifact))


def get_artifact(tenant: str, artifact: str) -> Statement[Artifact | None]:
    """One artifact."""
    return Statement("get_artifact", (tenant, id_or_nobody(artifact)), first(Artifact))


def delete_artifact(tenant: str, artifact: str) -> Statement[bool]:
    """Forget one."""
    return Statement("delete_artifact", (tenant, id_or_nobody(artifact)), value)


def delete_artifact_under(held: Held, artifact: str) -> Statement[bool | None]:
    """Forget one under a lease."""
    parameters = (held.tenant, id_or_nobody(held.id), held.token, id_or_nobody(artifact))
    return Statement("delete_artifact_under", parameters, value)


def put_artifact_under(held: Held, artifact: Artifact) -> Statement[PutArtifact]:
    """Record one of a run, under its lease."""
    parameters = (
        held.tenant,
        id_or_nobody(held.id),
        held.token,
        artifact.id,
        artifact.name,
        artifact.content_type,
        artifact.size,
        artifact.sha256,
        artifact.location,
    )
    return Statement("put_artifact_under", parameters, one(PutArtifact))


def find_artifact(tenant: str, run: str, name: str) -> Statement[Artifact | None]:
    """One artifact of a run."""
    return Statement("find_artifact", (tenant, id_or_nobody(run), name), first(Artifact))


def list_artifacts(
    tenant: str, run: str, after: str | None, limit: int
) -> Statement[Sequence[Artifact]]:
    """Artifacts of a run."""
    return Statement("list_artifacts", (tenant, id_or_nobody(run), after, limit), every(Artifact))


def known_artifacts(tenant: str, artifacts: Sequence[str]) -> Statement[Sequence[str]]:
    """Which ids are known."""
    given = [id_or_nobody(each) for each in artifacts]
    return Statement("known_artifacts", (tenant, given), lambda rows: [row[0] for row in rows])


def forget_artifacts(tenant: str, run: str, limit: int) -> Statement[Sequence[Artifact]]:
    """Forget artifacts of a run."""
    return Statement("forget_artifacts", (tenant, id_or_nobody(run), limit), every(Artifact))
