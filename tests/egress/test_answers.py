"""Servers that harm: too much, too slow, somebody else, or nothing at all."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from tests.egress.calling import TIME, Call
from tests.egress.worlds import World
from windlass.egress import Limits
from windlass.egress.body import Body
from windlass.errors import AnswerTooLarge

SITE = "http://public.example"
SHORT = 0.3


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("endless", "answer_too_large"),
        ("bomb", "answer_too_large"),
        ("empty-members", "answer_too_large"),
        ("many-headers", "answer_too_large"),
        ("headers", "egress_failed"),
        ("interim", "egress_failed"),
        ("drip", "egress_failed"),
        ("drip-head", "egress_failed"),
        ("brotli", "egress_failed"),
        ("upgrade", "egress_failed"),
    ],
)
async def test_s94_answer_is_bounded(world: World, path: str, error: str) -> None:
    time = SHORT if error == "egress_failed" else TIME
    told = await world.call(Call(url=f"{SITE}/{path}", limits={"timeout": time, "body": 200_000}))
    assert told.get("error") == error, told
    assert told["seconds"] < TIME


def test_s94_a_bomb_takes_no_memory() -> None:
    """64 MB in one piece, of which no more is made than may be kept."""
    bomb = gzip.compress(bytes(64_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLarge, match="10,000 bytes"):
            Body(Limits(body=10_000), ["gzip"]).feed(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        body = Body(Limits(body=10_000, truncate=True), ["gzip"])
        body.feed(bomb)
        assert (body.full, len(body.content())) == (True, 10_000)
    finally:
        tracemalloc.stop()


def test_s94_a_body_may_grow_only_so_much() -> None:
    with pytest.raises(AnswerTooLarge, match="100 bytes for each byte"):
        Body(Limits(body=10_000_000), ["gzip"]).feed(gzip.compress(bytes(5_000_000)))


async def test_s94_a_hundred_interim_answers_are_passed_over(world: World) -> None:
    told = await world.call(Call(url=f"{SITE}/hundred-interim"))
    assert (told["status"], told["body"]) == (200, "after all")


@pytest.mark.parametrize("path", ["endless", "bomb", "drip"])
async def test_of_a_body_without_end_the_beginning_may_be_kept(world: World, path: str) -> None:
    limits = {"timeout": SHORT if path == "drip" else TIME, "body": 1000, "truncate": True}
    told = await world.call(Call(url=f"{SITE}/{path}", limits=limits))
    assert (told["status"], told["truncated"]) == (200, True)
    assert 0 < len(told["body"]) <= 1000


async def test_gzip_is_read(world: World) -> None:
    told = await world.call(Call(url=f"{SITE}/gzip"))
    assert (told["body"], told["truncated"]) == ("small and fine", False)


@pytest.mark.parametrize("port", [9443, 9444, 9445, 9446, 9447])
async def test_s95_certificate_is_refused(world: World, port: int) -> None:
    """Expired, of another name, of a name with NUL in it, self-signed, and an address as a name."""
    host = "93.184.216.34" if port == 9446 else "public.example"
    told = await world.call(Call(url=f"https://{host}:{port}/", limits={"timeout": SHORT}))
    assert told.get("error") == "egress_failed", told


@pytest.mark.parametrize(
    "place",
    ["public.example:8099/", "public.example/nothing", "public.example/other",
     "public.example/reset", "nowhere.example/"],
    ids=["closed", "silent", "not HTTP", "reset", "no name"],
)  # fmt: skip
async def test_failure_tells_neither_by_text_nor_by_time_why(world: World, place: str) -> None:
    """A port that refuses at once looks as one that never answers."""
    told = await world.call(Call(url=f"http://{place}", limits={"timeout": SHORT}))
    host = place.partition("/")[0].partition(":")[0]
    assert told["error"] == "egress_failed"
    assert told["text"].startswith(f"{host} gave no usable answer within 0.3 s: try again")
    assert "NoAnswer" not in told["traceback"]  # a run would keep it
    assert told["seconds"] >= SHORT


@pytest.mark.parametrize("port", [80, 8099])
async def test_refusal_tells_neither_by_text_nor_by_time_whether_a_port_is_open(
    world: World, port: int
) -> None:
    told = await world.call(Call(url=f"http://127.0.0.1:{port}/"))
    assert told["text"] == (
        "This URL is not called: its host is not on the public internet: "
        "add its network to allow_networks if you trust it."
    )
    assert told["reached"] == []


async def test_in_development_an_error_says_why_at_once(world: World) -> None:
    told = await world.call(Call(url=f"{SITE}:8099/", policy={"development": True}))
    assert "ConnectError" in told["text"]
    assert told["seconds"] < TIME


@pytest.mark.parametrize("path", ["interim", "headers"])
async def test_s94_the_head_of_an_answer_is_counted(world: World, path: str) -> None:
    told = await world.call(Call(url=f"{SITE}/{path}", policy={"development": True}))
    assert "the head of the answer is too large" in told["text"]


async def test_environment_has_no_say(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies and netrc files are for people at terminals. The other world always has them."""
    for name, value in world.hostile_environment.items():
        monkeypatch.setenv(name, value)
    told = await world.call(Call(url=f"{SITE}/"))
    heard = json.loads(told["body"])["headers"]
    assert (told["status"], "authorization" in heard) == (200, False)
