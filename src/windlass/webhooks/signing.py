"""The headers that a sender adds to a webhook."""

from datetime import datetime

from windlass.errors import BadOption
from windlass.sources import Sources
from windlass.webhooks.headers import ID, PLAIN, STANDARD, TIMESTAMP, check_id, signed_text
from windlass.webhooks.secret import Secrets, read_secrets


def sign(
    body: bytes | str, *, id: str, secrets: Secrets, at: datetime | None = None
) -> dict[str, str]:
    """The headers that sign a body. Sign again, with the same id, whenever you send it again.

    Several secrets make several signatures. Raises BadSecret and BadWebhookHeader.
    """
    if at is not None and at.tzinfo is None:
        raise BadOption("at", "it must be aware, e.g. datetime(2030, 1, 1, tzinfo=UTC)")
    checked = read_secrets(secrets)
    moment = Sources.system().now() if at is None else at
    timestamp = str(int(moment.timestamp()))
    data = body.encode() if isinstance(body, str) else bytes(body)
    signed = signed_text(check_id(id), timestamp, data)
    return {
        ID: id,
        TIMESTAMP: timestamp,
        STANDARD: " ".join(secret.standard(signed) for secret in checked),
        PLAIN: " ".join(secret.plain(signed) for secret in checked),
    }
