"""What is known of artifacts, on PostgreSQL: see `store/operations/artifacts.py`."""

from windlass.domain.artifact import Artifact
from windlass.domain.run import Held
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.statement import Statement, first, one, value


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
