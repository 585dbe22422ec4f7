"""Artifacts: metadata of bytes that are kept elsewhere."""

from collections.abc import Sequence

import msgspec

from windlass.domain.artifact import Artifact, PutArtifact
from windlass.domain.run import Held
from windlass.store.sqlite.control import holds
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import blob_or_none, from_micros, to_blob, to_id


def put_artifact(tx: OpenTransaction, artifact: Artifact) -> Artifact:
    """Record an artifact; one that is known stays as it is. Return the row."""
    blob = to_blob(artifact.id)
    tx.execute(
        "put_artifact",
        (
            artifact.tenant, blob, artifact.name, artifact.content_type, artifact.size,
            artifact.sha256, artifact.location,
            None if artifact.run is None else to_blob(artifact.run), tx.now,
        ),
    )  # fmt: skip
    row = tx.fetch_one("get_artifact", (artifact.tenant, blob))
    assert row is not None, "it was just written"
    return _artifact(row)


def get_artifact(tx: OpenTransaction, tenant: str, artifact: str) -> Artifact | None:
    """Return one artifact."""
    blob = blob_or_none(artifact)
    row = None if blob is None else tx.fetch_one("get_artifact", (tenant, blob))
    return None if row is None else _artifact(row)


def delete_artifact(tx: OpenTransaction, tenant: str, artifact: str) -> bool:
    """Forget an artifact; false where there is none."""
    blob = blob_or_none(artifact)
    return blob is not None and tx.execute("delete_artifact", (tenant, blob)) > 0


def delete_artifact_under(tx: OpenTransaction, held: Held, artifact: str) -> bool | None:
    """Forget an artifact under a lease; None: that is lost."""
    return delete_artifact(tx, held.tenant, artifact) if holds(tx, held) else None


def put_artifact_under(tx: OpenTransaction, held: Held, artifact: Artifact) -> PutArtifact:
    """Record one of a run under its lease, in the place of the one of that name."""
    if not holds(tx, held):
        return PutArtifact(artifact=None)
    known = find_artifact(tx, held.tenant, held.id, artifact.name)
    if known is not None:
        if (known.sha256, known.size) == (artifact.sha256, artifact.size):
            return PutArtifact(artifact=known)
        delete_artifact(tx, held.tenant, known.id)
    ours = msgspec.structs.replace(artifact, tenant=held.tenant, run=held.id)
    return PutArtifact(artifact=put_artifact(tx, ours), replaced=known)


def find_artifact(tx: OpenTransaction, tenant: str, run: str, name: str) -> Artifact | None:
    """Return one artifact of a run."""
    row = tx.fetch_one("find_artifact", (tenant, blob_or_none(run), name))
    return None if row is None else _artifact(row)


def list_artifacts(
    tx: OpenTransaction, tenant: str, run: str, after: str | None, limit: int
) -> Sequence[Artifact]:
    """Return artifacts of a run, by name."""
    rows = tx.fetch("list_artifacts", (tenant, blob_or_none(run), after or "", limit))
    return [_artifact(row) for row in rows]


def known_artifacts(tx: OpenTransaction, tenant: str, artifacts: Sequence[str]) -> Sequence[str]:
    """Return the ids that are known."""
    return [each for each in artifacts if get_artifact(tx, tenant, each) is not None]


def forget_artifacts(tx: OpenTransaction, tenant: str, run: str, limit: int) -> Sequence[Artifact]:
    """Forget artifacts of a run, and return them."""
    found = list_artifacts(tx, tenant, run, None, limit)
    for artifact in found:
        delete_artifact(tx, tenant, artifact.id)
    return found


def _artifact(row: Row) -> Artifact:
    tenant, blob, name, content_type, size, sha256, location, run, created_at = row
    return Artifact(
        tenant=tenant,
        id=to_id(blob),
        name=name,
        content_type=content_type,
        size=size,
        sha256=sha256,
        location=location,
        run=None if run is None else to_id(run),
        created_at=from_micros(created_at),
    )
