"""An artifact: bytes kept outside the database, and what is known of them inside."""

from datetime import datetime

import msgspec

from windlass.domain.run import DEFAULT_TENANT


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an artifact; `location` says where its bytes are."""

    id: str
    name: str
    content_type: str
    size: int
    sha256: str
    location: str
    tenant: str = DEFAULT_TENANT
    run: str | None = None
    created_at: datetime | None = None  # by the store's clock, once it is stored
