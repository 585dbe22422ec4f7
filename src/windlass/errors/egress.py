"""Calls to other hosts that are refused, or come to nothing."""

from windlass.errors.base import WindlassError


class EgressError(WindlassError):
    """A call to another host did not come to an answer."""

    code = "egress"


class EgressDenied(EgressError):
    """The policy forbids the call: nothing was sent to that host.

    `reason` is a stable word: url, scheme, userinfo, host, port, address or redirect.
    """

    code = "egress_denied"

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(reason, why)
        self.reason = reason
        self.why = why

    def __str__(self) -> str:
        return f"This URL is not called: {self.why}."


class EgressFailed(EgressError):
    """No usable answer came in time; `timeout` is in seconds.

    The text is the same for a closed port, a silent one and one that speaks something else.
    """

    code = "egress_failed"
    retryable = True

    def __init__(self, host: str, timeout: float, why: str = "") -> None:
        super().__init__(host, timeout, why)
        self.host = host
        self.timeout = timeout
        self.why = why

    def __str__(self) -> str:
        told = f" ({self.why})" if self.why else ""
        return (
            f"{self.host} gave no usable answer within {self.timeout:g} s{told}: "
            "try again later, or look into the log of the process that called it."
        )


class AnswerTooLarge(EgressError):
    """An answer exceeds a limit; `what` says of what it has too much."""

    code = "answer_too_large"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what = what
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"The answer has more than {self.limit:,} {self.what}: "
            "ask for less, or raise the limit."
        )
