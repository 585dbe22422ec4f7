"""Whether a webhook is from whom it says, and of now."""

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Literal

from windlass.duration import Duration, parse_duration
from windlass.errors import BadSignature, WebhookOutOfTime
from windlass.sources import Sources
from windlass.webhooks.headers import PLAIN, STANDARD, Headers, Received, signed_text
from windlass.webhooks.secret import Secrets, read_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A webhook that may be believed."""

    id: str
    """The same whenever it is sent again: what you have handled under this id is done."""
    at: datetime
    """When it was signed."""


def verify(
    body: bytes | str,
    headers: Headers,
    secrets: Secrets,
    *,
    tolerance: Duration = "5m",
    scheme: Literal["standard", "plain"] = "standard",
    now: datetime | None = None,
) -> Verified:
    """Verify a webhook: the bytes of its body as they came, and its headers.

    Any of the secrets may have signed it. `scheme` says which header counts: `webhook-signature`
    or `X-Windlass-Signature`. Raises WebhookRejected, and BadSecret.
    """
    checked = read_secrets(secrets)
    received = Received(headers)
    id, timestamp = received.id(), received.timestamp()
    data = body.encode() if isinstance(body, str) else bytes(body)
    signed = signed_text(id, timestamp, data)
    if scheme == "plain":
        given, wanted = received.signatures(PLAIN), [one.plain(signed) for one in checked]
    else:
        given, wanted = received.signatures(STANDARD), [one.standard(signed) for one in checked]
    if not _any_equal(given, wanted):
        raise BadSignature
    # After the signature: a stranger learns nothing of our clock.
    at = datetime.fromtimestamp(int(timestamp), UTC)
    age = ((now or Sources.system().now()) - at).total_seconds()
    within = parse_duration(tolerance)
    if abs(age) > within:
        raise WebhookOutOfTime(round(age, 3), within)
    return Verified(id=id, at=at)


def _any_equal(given: list[str], wanted: list[str]) -> bool:
    """Whether any of these is any of those: all pairs are compared, each in constant time."""
    found = False
    for one, other in product(given, wanted):
        found |= hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
    return found
