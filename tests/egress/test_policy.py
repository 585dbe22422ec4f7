"""What a policy allows and refuses, without a network."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from windlass.egress import EgressGuard, EgressPolicy, Limits
from windlass.egress.addresses import _is_own
from windlass.egress.deny import DENIED, METADATA, why_denied
from windlass.egress.url import parse_url
from windlass.errors import BadDuration, BadOption, EgressDenied


def refuses(policy: EgressPolicy, url: str) -> str | None:
    """The reason, if an address or what a URL says by itself is refused."""
    try:
        policy.check_target(parse_url(url))
    except EgressDenied as error:
        return error.reason
    return None


@settings(max_examples=300)
@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
@example(IPv6Address("2001:db8::1"))
@example(IPv6Address("2606:4700::5efe:7f00:1"))
def test_no_address_is_allowed_that_is_not_global(address: IPv4Address | IPv6Address) -> None:
    if why_denied(address) is None:
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize("text", sorted(DENIED))
def test_first_and_last_address_of_each_row_are_refused(text: str) -> None:
    network = ip_network(text)
    for address in (network[0], network[-1]):
        assert why_denied(address) is not None
        host = f"[{address}]" if address.version == 6 else str(address)
        assert refuses(EgressPolicy(), f"http://{host}/") == "address"


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.0.0.1",
             "128.0.0.1", "169.253.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "192.167.0.1",
             "198.17.0.1", "198.20.0.1", "223.255.255.255", "2001:4860:4860::8888",
             "2606:4700::1111", "2a00:1450::1", "2400:cb00::1"],
)  # fmt: skip
def test_neighbours_of_refused_networks_are_allowed(text: str) -> None:
    assert why_denied(ip_address(text)) is None


def test_every_metadata_service_is_refused_whatever_network_is_allowed() -> None:
    everything = EgressPolicy(allow_networks=["0.0.0.0/0", "::/0"], development=True)
    for address in METADATA:
        with pytest.raises(EgressDenied):
            everything.check_address(address)
        EgressPolicy(allow_networks=[str(address)]).check_address(address)  # by its very address


ALLOWED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"allow_networks": ["10.20.0.0/16"]}, "http://10.20.1.1/", None),
    ({"allow_networks": ["10.20.0.0/16"]}, "http://10.21.1.1/", "address"),
    ({"allow_networks": ["10.0.0.0/8"]}, "http://[::ffff:10.0.0.1]/", "address"),
    ({"allow_networks": ["64:ff9b::/96"]}, "http://[64:ff9b::808:808]/", None),
    ({"allow_networks": ["64:ff9b::/96"]}, "http://[64:ff9b::7f00:1]/", "address"),
    ({"allow_networks": ["2002::/16"]}, "http://[2002:a9fe:a9fe::]/", "address"),
    ({"deny_networks": ["8.8.8.0/24"]}, "http://8.8.8.8/", "address"),
    ({"deny_networks": ["10.1.0.0/16"], "allow_networks": ["10.0.0.0/8"]}, "http://10.1.0.1/",
     "address"),
    ({"only_hosts": ["example.com"]}, "http://example.com/", None),
    ({"only_hosts": ["example.com"]}, "http://sub.example.com/", "host"),
    ({"only_hosts": ["*.example.com"]}, "http://sub.example.com/", None),
    ({"only_hosts": ["*.example.com"]}, "http://example.com/", "host"),
    ({"only_hosts": ["*.example.com"]}, "http://notexample.com/", "host"),
    ({"only_hosts": ["example.com"]}, "http://8.8.8.8/", "host"),
    ({"only_hosts": ["8.8.8.8"]}, "http://8.8.8.8/", None),
    ({"only_hosts": ["127.0.0.1"]}, "http://127.0.0.1/", "address"),
    ({"only_hosts": ["billing.internal"]}, "http://billing.internal/", None),
    ({"ports": [443]}, "http://example.com/", "port"),
    ({"ports": [6379]}, "http://example.com:6379/", None),
    ({"development": True}, "http://localhost:6379/", None),
    ({"development": True}, "http://[::1]:8000/", None),
    ({"development": True}, "http://10.0.0.1/", None),
    ({"development": True}, "http://169.254.169.254/", "address"),
    ({"development": True}, "http://[::ffff:169.254.169.254]/", "address"),
    ({"development": True}, "http://localhost:25/", "port"),
    ({"development": True}, "http://a:b@localhost/", "userinfo"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "url", "reason"), ALLOWED)
def test_policy(options: dict[str, Any], url: str, reason: str | None) -> None:
    if reason == "userinfo":
        with pytest.raises(EgressDenied, match="user or password"):
            EgressGuard(EgressPolicy(**options)).check(url)
    else:
        assert refuses(EgressPolicy(**options), url) == reason


def test_own_addresses_are_known_without_sending_anything() -> None:
    assert _is_own(ip_address("127.0.0.1"))
    assert not _is_own(ip_address("93.184.216.34"))


@pytest.mark.parametrize(
    "options",
    [
        {"only_hosts": "example.com"},
        {"only_hosts": ["http://example.com"]},
        {"only_hosts": ["exa*mple.com"]},
        {"allow_networks": ["10.0.0.1/8"]},
        {"allow_networks": "10.0.0.0/8"},
        {"deny_networks": ["home"]},
        {"ports": []},
        {"ports": [25]},
        {"ports": [0]},
    ],
)
def test_bad_policy_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        EgressPolicy(**options)


def test_bad_limits_are_refused() -> None:
    bad: list[dict[str, Any]] = [
        {"timeout": 0}, {"body": -1}, {"head": 10}, {"headers": 0}, {"ratio": 0}
    ]  # fmt: skip
    for options in bad:
        with pytest.raises(BadOption, match=next(iter(options))):
            Limits(**options)
    with pytest.raises(BadDuration):
        Limits(timeout="soon")
    assert Limits(timeout="2m").seconds == 120


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET / HTTP/1.1\r\nX: y\r\n\r\nGET", {}),
        ("CONNECT", {}),
        ("get", {}),
        ("GET", {"X": "a\r\nY: b"}),
        ("GET", {"X": "a\nb"}),
        ("GET", {"X\r\nY": "a"}),
        ("GET", {"X:": "a"}),
        ("GET", {"X": "é"}),
        ("GET", {"Host": "127.0.0.1"}),
        ("GET", {"transfer-encoding": "chunked"}),
        ("GET", {"Content-Length": "0"}),
    ],
)
async def test_s75_request_that_would_be_two_is_refused(
    method: str, headers: dict[str, str]
) -> None:
    async with EgressGuard() as guard:
        with pytest.raises(BadOption, match=r"method|headers"):
            await guard.request(method, "http://public.example/", headers=headers)
        with pytest.raises(BadOption, match="redirects"):
            await guard.request("GET", "http://public.example/", redirects=4)
