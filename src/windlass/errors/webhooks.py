"""Why a receiver refuses a webhook."""

from windlass.errors.base import WindlassError


class WebhookRejected(WindlassError):
    """A webhook that must not be believed: answer it with 400 or 401."""

    code = "webhook_rejected"


class BadWebhookHeader(WebhookRejected):
    """A header that a signed webhook needs is missing or malformed."""

    code = "bad_webhook_header"

    def __init__(self, header: str, why: str) -> None:
        super().__init__(header, why)
        self.header = header
        self.why = why

    def __str__(self) -> str:
        return f"The header {self.header} {self.why}."


class WebhookOutOfTime(WebhookRejected):
    """A webhook signed too long ago, or in the future; lengths are in seconds.

    `age` is negative if the webhook comes from the future.
    """

    code = "webhook_out_of_time"

    def __init__(self, age: float, tolerance: float) -> None:
        super().__init__(age, tolerance)
        self.age = age
        self.tolerance = tolerance

    def __str__(self) -> str:
        when = f"{self.age:g} s ago" if self.age >= 0 else f"{-self.age:g} s in the future"
        return (
            f"The webhook was signed {when} and the tolerance is {self.tolerance:g} s: "
            "check the clocks, or it is a replay."
        )


class BadSignature(WebhookRejected):
    """No signature of the webhook was made with any of the secrets."""

    code = "bad_signature"

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return (
            "No signature matches: verify the bytes of the body as they came, "
            "with the secret of this endpoint."
        )
