"""An artifact: bytes kept outside the database, and what is known of them inside.

The bytes are in a *place*, a folder or a bucket, under a key that is made of ids alone and never
used twice. The row in the store is what makes them an artifact. It names the run that made them,
and it is written under the token of that run's lease: a worker that has lost its lease publishes
nothing. A run has one artifact of each name.

What happens when it dies here:

- while bytes are written: a temporary file, or an upload that was not completed;
- after they are whole, before the row is committed: bytes that no row names;
- after a row was deleted or replaced, before its bytes were deleted: the same.

So a row never lacks its bytes, and bytes without a row are found by the sweep, which removes them
once they are older than a grace period (`windlass.artifacts.shelf`).
"""

import re
from datetime import datetime

import msgspec

from windlass.domain.run import DEFAULT_TENANT
from windlass.errors import BadOption

LONGEST_NAME = 200
_NOT_IN_NAMES = re.compile(r"[/\\\x00-\x1f\x7f]|[\ud800-\udfff]")


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A pointer to bytes, and what is known of them; `location` says where they are."""

    id: str
    name: str
    content_type: str
    size: int
    sha256: str
    location: str
    tenant: str = DEFAULT_TENANT
    run: str | None = None
    created_at: datetime | None = None  # by the store's clock, once it is stored


class PutArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an artifact that was put under a lease."""

    artifact: Artifact | None  # None: the lease is lost
    replaced: Artifact | None = None  # what had the name before; its bytes may go


def check_artifact_name(name: object) -> str:
    """Return a name that an artifact may have. Raises BadOption.

    It could be the name of a file, so that a listing can be saved as it is.
    """
    if not isinstance(name, str):
        raise BadOption("name", f"it must be text, not {type(name).__name__}")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadOption("name", f"it must have 1 to {LONGEST_NAME} characters")
    if _NOT_IN_NAMES.search(name):
        raise BadOption("name", f"{name!r} has a character that no name may have (/, \\ or unseen)")
    if name.startswith((".", "@")):
        raise BadOption("name", f"{name!r} begins with a character that no name begins with")
    return name
