"""Connections that are kept for the next call, and calls that end in the middle."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from tests.egress.names import Answers
from tests.egress.site import serve
from tests.egress.worlds import Connector
from windlass.egress import EgressGuard, EgressPolicy, Limits
from windlass.egress import guard as guard_module
from windlass.errors import EgressDenied, EgressFailed, UsageError

SITE = "http://public.example/"


class Counting(Connector):
    """Also counts the connections that it makes."""

    def __init__(self, places: dict[int, int]) -> None:
        super().__init__(places)
        self.made = 0
        self.connected = asyncio.Event()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await super().connect_tcp(host, port, timeout)
        self.made += 1
        self.connected.set()
        return stream


@asynccontextmanager
async def calling(
    policy: EgressPolicy | None = None, **limits: Any
) -> AsyncIterator[tuple[EgressGuard, Counting]]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    place = server.sockets[0].getsockname()[1]
    connector = Counting({80: place, 8080: place})
    guard = EgressGuard(
        policy,
        limits=Limits(**limits),
        resolver=Answers().resolve,
        connector=connector,
    )
    async with guard:
        yield guard, connector
    server.close()


async def test_connection_is_used_again_and_other_origins_have_their_own() -> None:
    async with calling() as (guard, connector):
        for _ in range(3):
            assert (await guard.request("POST", SITE, body=b"x")).status == 200
        assert connector.made == 1
        await guard.request("GET", "http://public.example:8080/")
        await guard.request("GET", "http://other.example/")
        assert connector.made == 3
        await guard.request("GET", SITE)
        assert connector.made == 3


async def test_calls_at_the_same_time_have_a_connection_each() -> None:
    async with calling() as (guard, connector):
        answers = await asyncio.gather(*(guard.request("GET", SITE) for _ in range(10)))
        assert [answer.status for answer in answers] == [200] * 10
        assert connector.made == 10


@pytest.mark.parametrize("path", ["endless", "reset"])
async def test_connection_with_more_to_say_is_not_used_again(path: str) -> None:
    async with calling(body=10, truncate=True, timeout=0.5) as (guard, connector):
        try:
            await guard.request("GET", SITE + path)
        except EgressFailed:
            assert path == "reset"
        answer = await guard.request("GET", SITE)
        assert (answer.status, connector.made) == (200, 2)


async def test_canceled_call_ends_at_once_and_leaves_no_connection() -> None:
    async with calling() as (guard, connector):
        call = asyncio.create_task(guard.request("GET", SITE + "nothing"))
        await connector.connected.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await guard.request("GET", SITE)).status == 200
        assert connector.made == 2


async def test_kept_connection_does_not_open_what_the_policy_refuses() -> None:
    async with calling(EgressPolicy(only_hosts=["public.example"])) as (guard, _):
        await guard.request("GET", SITE)
        with pytest.raises(EgressDenied, match="only_hosts"):
            await guard.request("GET", "http://other.example/")


async def test_w12_url_is_checked_when_it_is_saved() -> None:
    async with calling(timeout=0.2) as (guard, connector):
        guard.check("https://hooks.example/")
        for url in ("http://127.0.0.1/", "http://localhost/", "ftp://public.example/"):
            with pytest.raises(EgressDenied):
                guard.check(url)
        assert await guard.resolve(SITE) == ["93.184.216.34"]
        with pytest.raises(EgressDenied):
            await guard.resolve("http://two.example/")
        with pytest.raises(EgressFailed):
            await guard.resolve("http://nowhere.example/")
        assert (connector.made, connector.reached) == (0, [])


async def test_guard_without_its_client_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard_module, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'windlass\[http\]'"):
        await EgressGuard().request("GET", "https://public.example/")


async def test_checking_urls_needs_no_client() -> None:
    """Endpoints are saved by programs that call nobody."""
    code = (
        "import sys; from windlass.egress import EgressGuard; "
        "EgressGuard().check('https://hooks.example/'); "
        "print('httpcore2' in sys.modules, 'anyio' in sys.modules, 'ssl' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    out, _ = await process.communicate()
    assert out.decode().split()[:2] == ["False", "False"]
