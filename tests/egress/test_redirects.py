"""Redirects: each hop is a call like the first, and no more are followed than was asked for."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.egress.calling import Call
from tests.egress.worlds import World
from windlass.egress.message import next_target
from windlass.egress.url import parse_url

SECRET = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/plain"}
INNER = {
    "S01": "http://127.0.0.1/",
    "S16": "http://169.254.169.254/latest/meta-data/",
    "S34": "http://[::1]/",
    "S43": "http://[64:ff9b::169.254.169.254]/",
}


def to(place: str, status: int = 302, host: str = "http://public.example") -> str:
    return f"{host}/to/{status}/{quote(place, safe='')}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("row", INNER)
async def test_s89_redirect_inwards_is_refused(world: World, row: str, status: int) -> None:
    told = await world.call(Call(url=to(INNER[row], status), redirects=3))
    assert (told["error"], told["reason"]) == ("egress_denied", "address")
    assert told["reached"] == []


@pytest.mark.parametrize("status", [301, 307])
async def test_s89_w13_webhooks_follow_nothing(world: World, status: int) -> None:
    url = to("http://127.0.0.1/", status)
    told = await world.call(Call(url=url, method="POST", body="{}"))
    assert (told["status"], told["url"], told["reached"]) == (status, url, [])


S90 = {
    "chain of 20": (to(to(to(to("http://public.example/")))), "redirect"),
    "to a file": (to("file:///etc/passwd"), "scheme"),
    "without a scheme": (to("//127.0.0.1/"), "address"),
    "to a name that turns": (to("http://private.example/"), "address"),
    "to a port of a service": (to("http://public.example:6379/"), "port"),
    "with credentials": (to("http://a:b@public.example/"), "userinfo"),
    "with a backslash": (to("/\\127.0.0.1/"), "url"),
    "from https to http": (to("http://public.example/", host="https://public.example"), "redirect"),
}


@pytest.mark.parametrize("row", S90)
async def test_s90_odd_redirect_is_refused(world: World, row: str) -> None:
    url, reason = S90[row]
    told = await world.call(Call(url=url, redirects=3))
    assert (told.get("error"), told.get("reason")) == ("egress_denied", reason), told
    assert told["reached"] == []


async def test_s90_three_redirects_are_followed_and_a_fragment_is_dropped(world: World) -> None:
    url = to(to(to("http://other.example/there?a=1#top")))
    told = await world.call(Call(url=url, redirects=3))
    assert (told["status"], told["url"]) == (200, "http://other.example/there?a=1")
    told = await world.call(Call(url=url, redirects=2))
    assert told["reason"] == "redirect"


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("/x", "https://a.example:8443/x"),
        ("x?y", "https://a.example:8443/b/x?y"),
        ("?y", "https://a.example:8443/b/c?y"),
        ("//b.example/x", "https://b.example/x"),
        ("HTTPS://b.example#x", "https://b.example/"),
    ],
)
def test_redirect_may_be_relative(place: str, url: str) -> None:
    assert next_target(parse_url("https://a.example:8443/b/c?d=/e"), place).url == url


async def test_s91_nothing_but_location_is_followed(world: World) -> None:
    told = await world.call(Call(url="http://public.example/", redirects=3))
    assert (told["status"], told["url"], told["reached"]) == (200, "http://public.example/", [])


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("http://public.example/", {"accept", "authorization", "cookie", "x-api-key"}),
        ("http://other.example/", {"accept"}),
        ("http://public.example:8080/", {"accept"}),
        ("https://public.example/", {"accept"}),
    ],
    ids=["same origin", "other host", "other port", "other scheme"],
)
async def test_another_origin_is_given_no_credentials(
    world: World, place: str, kept: set[str]
) -> None:
    told = await world.call(Call(url=to(place), redirects=1, headers=SECRET))
    heard = json.loads(told["body"])["headers"]
    assert set(heard) - {"host", "accept-encoding", "user-agent"} == kept


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [(301, "GET", ""), (302, "GET", ""), (303, "GET", ""), (307, "POST", "x"), (308, "POST", "x")],
)
async def test_method_and_body_after_a_redirect(
    world: World, status: int, method: str, body: str
) -> None:
    url = to("http://public.example/", status)
    told = await world.call(Call(url=url, method="POST", body="x", redirects=1))
    heard = json.loads(told["body"])
    assert (heard["method"], heard["body"]) == (method, body)
