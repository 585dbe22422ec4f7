"""HTTP/1.1 on connections to checked addresses: the only importer of httpcore2.

httpcore2's pool would resolve and connect by itself, and would not count what a server sends before
its answer has a head. So connections are made here: the address comes from `Addresses`, TLS proves
the name of the URL, and what is read passes through a stream that counts. Nothing below looks at
variables for proxies, or at netrc files.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import httpcore2

from windlass.egress.addresses import Addresses, NoAnswer
from windlass.egress.message import Message
from windlass.egress.policy import Limits
from windlass.egress.url import Address, Target
from windlass.errors import AnswerTooLarge

_TROUBLE = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    ssl.SSLError,
    OSError,
)
# How long a connection may wait for the next call: a name may lead elsewhere after that.
_KEPT_FOR = 5.0
_KEPT_PER_ORIGIN = 4
_KEPT = 100
_TRIED = 4  # addresses of one host


class _Counted(httpcore2.AsyncNetworkStream):
    """A stream that gives no more than so many bytes until the head of an answer is complete.

    Without it a server could send interim answers for ever.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._left: int | None = None

    def expect_head(self, most: int) -> None:
        """From now on, count."""
        self._left = most

    def head_is_complete(self) -> None:
        """Stop counting: limits of the body are looked after elsewhere."""
        self._left = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._left is None:
            return await self._inner.read(max_bytes, timeout)
        if self._left <= 0:
            raise httpcore2.RemoteProtocolError("the head of the answer is too large")
        data = await self._inner.read(min(max_bytes, self._left), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Connection:
    """One connection, which may carry several calls, one after the other."""

    def __init__(self, target: Target, stream: httpcore2.AsyncNetworkStream) -> None:
        self.origin = target.origin
        self.loop = asyncio.get_running_loop()
        self._stream = _Counted(stream)
        origin = httpcore2.Origin(*_as_bytes(target))
        self._http = httpcore2.AsyncHTTP11Connection(origin, self._stream, _KEPT_FOR)

    def usable(self) -> bool:
        """Whether it waits for a call, and the other side has not closed it."""
        return self._http.is_idle() and not self._http.has_expired()

    async def send(self, target: Target, message: Message, most: int) -> httpcore2.Response:
        """Send a call and read the head of its answer."""
        scheme, host, port = _as_bytes(target)
        url = httpcore2.URL(scheme=scheme, host=host, port=port, target=target.path.encode())
        request = httpcore2.Request(
            message.method, url, headers=message.lines(target), content=message.body
        )
        self._stream.expect_head(most)
        response = await self._http.handle_async_request(request)
        self._stream.head_is_complete()
        return response

    async def aclose(self) -> None:
        await self._http.aclose()


class Reply:
    """An answer whose head is there; its body can be read once."""

    def __init__(self, wire: "Wire", connection: _Connection, response: httpcore2.Response) -> None:
        self._wire = wire
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in response.headers
        )

    def values(self, name: str) -> list[str]:
        """The values of a header, from all its lines."""
        lines = ",".join(value for found, value in self.headers if found == name)
        return [value.strip().lower() for value in lines.split(",") if value.strip()]

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises NoAnswer."""
        with _told():
            async with aclosing(self._response.aiter_stream()) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def aclose(self) -> None:
        """Let go of the connection: it is kept only if the body was read to its end."""
        with _told():
            await self._response.aclose()
            await self._wire.take_back(self._connection)


class Wire:
    """Connections to checked addresses, and those that wait for the next call."""

    def __init__(
        self,
        addresses: Addresses,
        backend: httpcore2.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._addresses = addresses
        self._backend = backend or httpcore2.AnyIOBackend()
        self._tls = tls
        self._kept: list[_Connection] = []

    async def send(self, target: Target, message: Message, limits: Limits) -> Reply:
        """Send a call and read the head of its answer. Raises NoAnswer and EgressDenied."""
        connection = await self._find(target) or await self._connect(target, limits)
        try:
            with _told():
                response = await connection.send(target, message, limits.head)
            if response.status == 101:
                raise NoAnswer("it changed to another protocol")
            if len(response.headers) > limits.headers:
                raise AnswerTooLarge("headers", limits.headers)
        except BaseException:
            await connection.aclose()
            raise
        return Reply(self, connection, response)

    async def take_back(self, connection: _Connection) -> None:
        """Keep a connection for the next call, if it can carry one and there is room."""
        alike = sum(other.origin == connection.origin for other in self._kept)
        full = alike >= _KEPT_PER_ORIGIN or len(self._kept) >= _KEPT
        if connection.usable() and not full:
            self._kept.append(connection)
        else:
            await connection.aclose()

    async def aclose(self) -> None:
        """Close what is kept."""
        kept, self._kept = self._kept, []
        await _close(kept)

    async def _find(self, target: Target) -> _Connection | None:
        here = asyncio.get_running_loop()
        # Those of a loop that has ended cannot even be closed.
        usable = [one for one in self._kept if one.loop is here and one.usable()]
        gone = [one for one in self._kept if one.loop is here and one not in usable]
        found = next((one for one in reversed(usable) if one.origin == target.origin), None)
        self._kept = [one for one in usable if one is not found]
        await _close(gone)
        return found

    async def _connect(self, target: Target, limits: Limits) -> _Connection:
        addresses = await self._addresses.of(target)
        stream = await self._dial(addresses[:_TRIED], target, limits)
        if target.scheme == "https":
            try:
                with _told():
                    stream = await stream.start_tls(self._context(), target.host)
            except BaseException:
                await stream.aclose()
                raise
        return _Connection(target, stream)

    async def _dial(
        self, addresses: Iterable[Address], target: Target, limits: Limits
    ) -> httpcore2.AsyncNetworkStream:
        failure: NoAnswer | None = None
        for address in addresses:
            try:
                with _told():
                    return await self._backend.connect_tcp(
                        str(address), target.port, timeout=limits.connect_seconds
                    )
            except NoAnswer as error:
                failure = error
        raise failure or NoAnswer("its name has no address")

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = httpcore2.default_ssl_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def _as_bytes(target: Target) -> tuple[bytes, bytes, int]:
    return target.scheme.encode(), target.host.encode(), target.port


async def _close(connections: Iterable[_Connection]) -> None:
    for connection in connections:
        with _told():
            await connection.aclose()


@contextmanager
def _told() -> Iterator[None]:
    """Turn all that the network may raise into NoAnswer."""
    try:
        yield
    except _TROUBLE as error:
        raise NoAnswer(f"{type(error).__name__}: {error}") from error
