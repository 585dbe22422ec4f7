"""Signatures of webhooks, for those who send them and those who receive them.

A webhook is a POST from a stranger until its signature is verified. The signature covers three
things, joined by full stops: the id, which stays the same when the webhook is sent again; the time,
which is fresh each time; and the bytes of the body, as they were sent.

    webhook-id           the event
    webhook-timestamp    seconds since 1970
    webhook-signature    Standard Webhooks: `v1,` and base64, of HMAC-SHA256 with the key that
                         is the secret without `whsec_`, decoded from base64
    X-Windlass-Signature `sha256=` and hexadecimal digits, of HMAC-SHA256 with the secret's text as
                         the key: for receivers in a shell, or without a library

Both have one signature for each secret, with spaces between them. While a secret is replaced,
webhooks are signed with the old and the new one, and each receiver finds the one that it knows.

Ids have no full stop, and times are digits alone: otherwise the same signed text could be read as
another id, time and body. Only the standard library is used.
"""

from windlass.webhooks.headers import Headers
from windlass.webhooks.secret import new_secret
from windlass.webhooks.signing import sign
from windlass.webhooks.verifying import Verified, verify

__all__ = ["Headers", "Verified", "new_secret", "sign", "verify"]
