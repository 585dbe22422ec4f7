"""URLs that must not be called: each is refused, for its reason, and nobody is reached.

The numbers are those of the list of attacks that the guard was built against.
"""

from __future__ import annotations

import socket

import pytest

from tests.egress.calling import Call
from tests.egress.site import PUBLIC
from tests.egress.worlds import World

LONG = "a" * 64
NAME = ".".join(["a" * 49] * 5)  # 249 characters

# row, what the error must give as its reason, and the URL
ROWS = [
    ("S01", "address", "http://127.0.0.1/"),
    ("S02", "host", "http://127.1/"),
    ("S03", "host", "http://127.0.1/"),
    ("S04", "address", "http://127.255.255.254/"),
    ("S05", "host", "http://0/"),
    ("S06", "address", "http://0.0.0.0:8000/"),
    ("S07", "host", "http://2130706433/"),
    ("S08", "host", "http://0x7f000001/"),
    ("S10", "host", "http://0X7F.0.0.1/"),
    ("S11", "host", "http://0177.0.0.1/"),
    ("S12", "host", "http://017700000001/"),
    ("S14", "host", "http://127.000.000.001/"),
    ("S15", "host", "http://010.0.0.1/"),
    ("S16", "address", "http://169.254.169.254/latest/meta-data/"),
    ("S17", "host", "http://2852039166/"),
    ("S18", "host", "http://0xa9fea9fe/"),
    ("S20", "host", "http://0251.0376.0251.0376/"),
    ("S21", "address", "http://169.254.170.2/v2/credentials"),
    ("S22", "address", "http://100.100.100.200/"),
    ("S23", "address", "http://192.0.0.192/"),
    ("S25", "address", "http://[fd00:ec2::254]/"),
    ("S26", "host", "http://metadata.google.internal/"),
    ("S26 under another name", "address", "http://metadata.example/"),
    ("S27 10/8", "address", "http://10.1.2.3/"),
    ("S27 172.16/12", "address", "http://172.16.0.1/"),
    ("S27 172.16/12 end", "address", "http://172.31.255.255/"),
    ("S27 192.168/16", "address", "http://192.168.0.1/"),
    ("S28", "address", "http://100.64.0.1/"),
    ("S29", "address", "http://198.18.0.1/"),
    ("S30", "address", "http://224.0.0.1/"),
    ("S32 reserved", "address", "http://240.0.0.1/"),
    ("S32 broadcast", "address", "http://255.255.255.255/"),
    ("S33", "address", "http://192.88.99.1/"),
    ("S34", "address", "http://[::1]/"),
    ("S35", "address", "http://[::]/"),
    ("S36", "address", "http://[0:0:0:0:0:0:0:1]/"),
    ("S37", "address", "http://[::ffff:127.0.0.1]/"),
    ("S38", "address", "http://[::ffff:7f00:1]/"),
    ("S40", "address", "http://[::127.0.0.1]/"),
    ("S42", "address", "http://[64:ff9b::7f00:1]/"),
    ("S43", "address", "http://[64:ff9b::169.254.169.254]/"),
    ("S45", "address", "http://[2002:7f00:1::]/"),
    ("S46", "address", "http://[2002:a9fe:a9fe::]/"),
    ("S48", "address", "http://[fe80::1]/"),
    ("S49 encoded zone", "host", "http://[fe80::1%25eth0]/"),
    ("S49 encoded zone of loopback", "host", "http://[::1%25lo]/"),
    ("S50", "host", "http://[fe80::1%eth0]/"),
    ("S51", "address", "http://[fc00::1]/"),
    ("S52", "address", "http://[fec0::1]/"),
    ("S53", "address", "http://[ff02::1]/"),
    ("S55", "host", "http://localhost/"),
    ("S55 case", "host", "http://LOCALHOST/"),
    ("S55 dot", "host", "http://localhost./"),
    ("S56", "host", "http://127.0.0.1./"),
    ("S57", "host", "http://foo.localhost/"),
    ("S57 of the resolver", "host", "http://ip6-localhost/"),
    ("S59", "host", "http://①②⑦.⓪.⓪.①/"),
    ("S60", "host", "http://127。0。0。1/"),
    ("S61", "host", "http://127．0．0．1/"),
    ("S62", "host", "http://１２７.0.0.1/"),
    ("S64 circled", "host", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/"),
    ("S64 soft hyphen", "host", "http://loc\u00adalhost/"),
    ("S64 zero width", "host", "http://localhost\u200b/"),
    ("S64 script l", "host", "http://loca\u2113host/"),
    ("S64 Kelvin sign", "host", "http://\u212aelvin.example/"),
    ("S66", "userinfo", "http://user:pass@127.0.0.1/"),
    ("S66 of a good host", "userinfo", "http://user@public.example/"),
    ("S67", "userinfo", "http://93.184.216.34@127.0.0.1/"),
    ("S68", "url", "http://127.0.0.1\\@93.184.216.34/"),
    ("S68 swapped", "url", "http://93.184.216.34\\@127.0.0.1/"),
    ("S69 fragment", "userinfo", "http://93.184.216.34#@127.0.0.1/"),
    ("S69 fragment after the path", "url", "http://93.184.216.34/#@127.0.0.1/"),
    ("S69 query", "userinfo", "http://93.184.216.34?@127.0.0.1/"),
    ("S69 query without a path", "url", "http://93.184.216.34?a=1"),
    ("S70", "userinfo", "http://a@b@127.0.0.1/"),
    ("S71", "host", "http://[::1]evil.example/"),
    ("S71 dot", "host", "http://[::1].evil.example/"),
    ("S72", "host", "http://%31%32%37.0.0.1/"),
    ("S72 slash", "userinfo", "http://127.0.0.1%2f@x/"),
    ("S73 three slashes", "host", "http:///127.0.0.1/"),
    ("S73 none", "url", "http:127.0.0.1/"),
    ("S73 no scheme", "url", "//127.0.0.1/"),
    ("S73 backslash", "url", "http:/\\127.0.0.1/"),
    ("S74 tab", "url", "ht\ttp://127.0.0.1/"),
    ("S74 space", "url", " http://127.0.0.1/"),
    ("S74 NUL", "url", "\x00http://127.0.0.1/"),
    ("S75", "url", "http://127.0.0.1\r\nHost: x/"),
    ("S75 path", "url", "http://public.example/\r\nHost: x"),
    ("S75 encoded", "url", "http://public.example/%0d%0aHost:%20x"),
    ("S77 file", "scheme", "file:///etc/passwd"),
    ("S77 ftp", "scheme", "ftp://public.example/"),
    ("S77 gopher", "scheme", "gopher://127.0.0.1:6379/_INFO"),
    ("S77 dict", "scheme", "dict://127.0.0.1:11211/stat"),
    ("S77 ldap", "scheme", "ldap://127.0.0.1/"),
    ("S77 jar", "url", "jar:http://public.example!/"),
    ("S77 data", "url", "data:text/plain,hello"),
    ("S77 unix", "url", "unix:/var/run/docker.sock"),
    ("S77 http+unix", "scheme", "http+unix://%2Fvar%2Frun%2Fdocker.sock/"),
    ("S78", "address", "HTTP://127.0.0.1/"),
    *((f"S79 {port}", "port", f"http://public.example:{port}/") for port in
      (22, 25, 6379, 5432, 11211, 2375)),
    ("S79 zero", "port", "http://public.example:0/"),
    ("S79 beyond", "port", "http://public.example:65616/"),
    ("S79 zeros before", "port", "http://public.example:0080/"),
    ("S79 none", "host", "http://public.example:/"),
    ("S81", "address", "http://private.example/"),
    ("S82", "address", "http://two.example/"),
    ("S83", "address", "http://families.example/"),
    ("S86", "address", "http://alias.example/"),
    ("S86 localhost", "address", "http://alias-of-localhost.example/"),
    ("S87", "address", "http://zero.example/"),
    ("S87 NAT64", "address", "http://nat64.example/"),
    ("S88 name", "host", f"http://{NAME}.abcd/"),
    ("S88 label", "host", f"http://{LONG}.example/"),
    ("S88 underscore", "host", "http://a_b.example/"),
    ("S88 empty label", "host", "http://a..b/"),
    ("S88 nothing", "host", "http://:80/"),
    ("too long", "url", "http://public.example/" + "a" * 2048),
]  # fmt: skip


@pytest.mark.parametrize(("row", "reason", "url"), ROWS, ids=[row for row, _, _ in ROWS])
async def test_url_is_refused_and_nobody_is_reached(
    world: World, row: str, reason: str, url: str
) -> None:
    told = await world.call(Call(url=url))
    assert (told.get("error"), told.get("reason")) == ("egress_denied", reason), told
    assert told["reached"] == []


async def test_s58_the_machine_itself_is_refused(world: World) -> None:
    for host in (world.own, socket.gethostname().split(".")[0]):
        told = await world.call(Call(url=f"http://{host}/"))
        assert told["error"] == "egress_denied"
        assert told["reached"] == []


GOOD = [
    ("S99 address", f"http://{PUBLIC}/"),
    ("S99 IPv6 over TLS", "https://[2606:2800:220:1::1]/"),
    ("S99 letters of a language", "https://bücher.example/"),
    ("S99 port", "https://public.example:8443/"),
    ("S99 port above 1023", "http://public.example:8080/a/b?c=%20d&e[]=f"),
    ("S99 capitals", "HTTP://Public.EXAMPLE/"),
    ("S99 IPv6 by name", "http://six.example/"),
]


@pytest.mark.parametrize("url", [url for _, url in GOOD], ids=[row for row, _ in GOOD])
async def test_s99_good_url_is_called(world: World, url: str) -> None:
    told = await world.call(Call(url=url))
    assert told.get("status") == 200, told


async def test_s84_a_name_is_resolved_once_and_what_was_checked_is_called(world: World) -> None:
    """The second answer of this name is 127.0.0.1: whoever asks again is led astray."""
    before = (await world.call(Call(url="http://127.0.0.1/")))["asked"]
    told = await world.call(Call(url="http://rebinding.example/"))
    assert (told["status"], told["reached"]) == (200, [])
    assert told["asked"] - before == world.questions
    again = await world.call(Call(url="http://rebinding.example/"))
    assert (again["error"], again["reached"]) == ("egress_denied", [])


async def test_s96_a_url_that_was_good_is_checked_at_every_call(world: World) -> None:
    assert (await world.call(Call(url="http://moved.example/")))["status"] == 200
    told = await world.call(Call(url="http://moved.example/"))
    assert (told["error"], told["reached"]) == ("egress_denied", [])


@pytest.mark.parametrize("host", ["nowhere.example", "many.example"])
async def test_name_without_a_sensible_answer_fails(world: World, host: str) -> None:
    told = await world.call(Call(url=f"http://{host}/", limits={"timeout": 0.3}))
    assert (told["error"], told["reached"]) == ("egress_failed", [])
