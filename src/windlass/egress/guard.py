"""A call to another host, from its URL to its answer."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

from windlass.egress.addresses import Addresses, NoAnswer, Resolver, resolve_by_system
from windlass.egress.body import Body
from windlass.egress.message import (
    REDIRECTS,
    Answer,
    Headers,
    Message,
    make_message,
    next_target,
)
from windlass.egress.policy import EgressPolicy, Limits
from windlass.egress.url import Target, parse_url
from windlass.errors import BadOption, EgressDenied, EgressFailed, UsageError

if TYPE_CHECKING:
    import httpcore2

    from windlass.egress.wire import Reply, Wire

_log = logging.getLogger(__name__)
_MOST_REDIRECTS = 3


class EgressGuard:
    """Calls other hosts, within a policy and within limits. See the package for what it promises.

    `resolver` and `connector` stand for the system's: the first gives addresses of names, the
    second connects to addresses that were checked. `tls` is for hosts whose certificates come from
    an authority of your own.
    """

    def __init__(
        self,
        policy: EgressPolicy | None = None,
        *,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        resolver: Resolver = resolve_by_system,
        connector: "httpcore2.AsyncNetworkBackend | None" = None,
    ) -> None:
        self.policy = policy or EgressPolicy()
        self.limits = limits or Limits()
        self._tls = tls
        self._connector = connector
        self._addresses = Addresses(self.policy, resolver)

    def check(self, url: str) -> None:
        """Check a URL without the network, as when it is saved. Raises EgressDenied.

        A name may lead anywhere later: each call checks its addresses again.
        """
        self._target(url)

    async def resolve(self, url: str) -> Sequence[str]:
        """The addresses that a call of this URL would connect to now.

        Raises EgressDenied, and EgressFailed if there are none.
        """
        target = self._target(url)
        async with self._in_time(target, self.limits) as deadline:
            async with asyncio.timeout_at(deadline):
                return [str(address) for address in await self._addresses.of(target)]

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Headers = (),
        body: bytes = b"",
        redirects: int = 0,
        limits: Limits | None = None,
    ) -> Answer:
        """Call a URL; any status is an answer. Follows at most so many redirects, and at most 3.

        Raises EgressDenied, EgressFailed (never before `limits.timeout` is over, unless in
        development) and AnswerTooLarge. With 0 redirects a redirect is an answer like any other.
        """
        if not 0 <= redirects <= _MOST_REDIRECTS:
            raise BadOption("redirects", f"it must be from 0 to {_MOST_REDIRECTS}")
        message = make_message(method, headers, body)
        target = self._target(url)
        limits = limits or self.limits
        async with self._in_time(target, limits) as deadline:
            return await self._follow(target, message, redirects, limits, deadline)

    async def aclose(self) -> None:
        """Close connections that wait for the next call."""
        await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _follow(
        self, target: Target, message: Message, left: int, limits: Limits, deadline: float
    ) -> Answer:
        follow = left > 0
        while True:
            answer = await self._hop(target, message, limits, deadline)
            location = answer.header("location")
            if not follow or answer.status not in REDIRECTS or location is None:
                return answer
            if left == 0:
                raise EgressDenied("redirect", "it redirects more often than is followed")
            left -= 1
            there = next_target(target, location)
            self.policy.check_target(there)
            message = message.redirected(answer.status, target, there)
            target = there

    async def _hop(
        self, target: Target, message: Message, limits: Limits, deadline: float
    ) -> Answer:
        async with asyncio.timeout_at(deadline):
            reply = await self._wire.send(target, message, limits)
        try:
            content, truncated = await _read(reply, limits, deadline)
        finally:
            await reply.aclose()
        return Answer(
            status=reply.status,
            headers=reply.headers,
            body=content,
            url=target.url,
            truncated=truncated,
        )

    def _target(self, url: str) -> Target:
        target = parse_url(url)
        self.policy.check_target(target)
        return target

    @asynccontextmanager
    async def _in_time(self, target: Target, limits: Limits) -> AsyncIterator[float]:
        """Gives the deadline; every failure within becomes the same error, raised then."""
        deadline = asyncio.get_running_loop().time() + limits.seconds
        try:
            yield deadline
        except (NoAnswer, TimeoutError) as error:
            why = str(error) or "it took too long"
            # The caller may be a stranger, who is told nothing: the operator finds it here.
            _log.info(
                "A call to another host failed",
                extra={"host": target.host, "port": target.port, "why": why},
            )
            if self.policy.development:
                raise EgressFailed(target.host, limits.seconds, why) from error
        else:
            return
        # Closed ports refuse at once, silent ones never answer: who waits sees no difference.
        await _sleep_until(deadline)
        raise EgressFailed(target.host, limits.seconds) from None  # runs keep tracebacks

    @cached_property
    def _wire(self) -> "Wire":
        if find_spec("httpcore2") is None:
            raise UsageError("Calls to other hosts need a client: pip install 'windlass[http]'.")
        from windlass.egress.wire import Wire

        return Wire(self._addresses, self._connector, self._tls)


async def _read(reply: "Reply", limits: Limits, deadline: float) -> tuple[bytes, bool]:
    """The body, and whether there was more of it."""
    body: Body | None = None
    try:
        body = Body(limits, reply.values("content-encoding"))
        async with asyncio.timeout_at(deadline), aclosing(reply.chunks()) as chunks:
            async for chunk in chunks:
                body.feed(chunk)
                if body.full:
                    return body.content(), True
    except (NoAnswer, TimeoutError):
        if not limits.truncate:
            raise
        return body.content() if body is not None else b"", True
    return body.content(), False


async def _sleep_until(deadline: float) -> None:
    await asyncio.sleep(max(0.0, deadline - asyncio.get_running_loop().time()))
