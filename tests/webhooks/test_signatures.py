"""Signatures of webhooks, against the reference library and against attacks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from windlass.errors import (
    BadOption,
    BadSecret,
    BadSignature,
    BadWebhookHeader,
    WebhookOutOfTime,
    WebhookRejected,
)
from windlass.sources import Sources
from windlass.webhooks import new_secret, sign, verify

OLD, NEW, NEXT = (new_secret(Sources.manual(seed=seed)) for seed in (1, 2, 3))
AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
BODY = '{"type": "run.succeeded", "name": "Zoë"}'.encode()
Scheme = Literal["standard", "plain"]
SCHEMES: tuple[Scheme, ...] = ("standard", "plain")
HEADER = {"standard": "webhook-signature", "plain": "X-Windlass-Signature"}


def signed(body: bytes = BODY, **changes: Any) -> dict[str, str]:
    return sign(body, **{"id": "evt_1", "secrets": NEW, "at": AT, **changes})


def test_w01_signature_is_that_of_the_standard() -> None:
    """The example of the specification."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = sign(
        '{"test": 2432232314}',
        id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        secrets=secret,
        at=datetime.fromtimestamp(1614265330, UTC),
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    text = b'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
    plain = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    assert headers["X-Windlass-Signature"] == f"sha256={plain}"


@pytest.mark.parametrize("size", [24, 32, 64])
def test_w01_reference_library_verifies_ours_and_we_verify_its(size: int) -> None:
    secret = "whsec_" + base64.b64encode(bytes(range(size))).decode()
    now = datetime.now(UTC)  # noqa: TID251 - the library has no other clock
    reference = Webhook(secret)
    headers = sign(BODY, id="evt_1", secrets=[OLD, secret])
    assert reference.verify(BODY, headers) == {"type": "run.succeeded", "name": "Zoë"}
    with pytest.raises(WebhookVerificationError):
        reference.verify(BODY + b" ", headers)
    theirs = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(now.timestamp())),
        "Webhook-Signature": reference.sign("msg_1", now, BODY.decode()),
    }
    assert verify(BODY, theirs, secret).id == "msg_1"


def test_plain_signature_is_what_a_shell_computes() -> None:
    headers = signed()
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + BODY
    done = subprocess.run(
        ("openssl", "dgst", "-sha256", "-hmac", NEW), input=text, capture_output=True, check=True
    )
    assert headers["X-Windlass-Signature"] == f"sha256={done.stdout.decode().split()[-1]}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_w02_anything_that_was_changed_is_refused(scheme: Scheme) -> None:
    headers = signed()
    assert verify(BODY, headers, NEW, scheme=scheme, now=AT).id == "evt_1"
    assert verify(BODY.decode(), headers, NEW, scheme=scheme, now=AT).at == AT
    changed: list[tuple[bytes, dict[str, str]]] = [
        (BODY + b" ", {}),
        (BODY.replace(b"run", b"Run"), {}),
        (b'{"type": "run.succeeded", "name": "Zo\\u00eb"}', {}),
        (b"", {}),
        (BODY, {"webhook-id": "evt_2"}),
        (BODY, {"webhook-timestamp": str(int(AT.timestamp()) + 1)}),
        (BODY, {HEADER[scheme]: headers[HEADER[scheme]][:-1] + "x"}),
        (BODY, {HEADER[scheme]: "v1, sha256="}),
        (BODY, {HEADER[scheme]: "v2," + headers["webhook-signature"][3:]}),
        (BODY, {HEADER[scheme]: "é"}),
    ]
    for body, other in changed:
        with pytest.raises(BadSignature):
            verify(body, {**headers, **other}, NEW, scheme=scheme, now=AT)


def test_a_signature_counts_for_its_own_scheme_alone() -> None:
    headers = signed()
    swapped = {
        **headers,
        "webhook-signature": headers["X-Windlass-Signature"],
        "X-Windlass-Signature": headers["webhook-signature"],
    }
    for scheme in SCHEMES:
        with pytest.raises(BadSignature):
            verify(BODY, swapped, NEW, scheme=scheme, now=AT)


@pytest.mark.parametrize("sign_of", [1, -1])
def test_w03_a_replay_is_refused_and_a_webhook_of_the_future_too(sign_of: int) -> None:
    headers = signed()
    within = AT + sign_of * timedelta(minutes=5)
    beyond = within + sign_of * timedelta(seconds=1)
    assert verify(BODY, headers, NEW, now=within).at == AT
    with pytest.raises(WebhookOutOfTime) as caught:
        verify(BODY, headers, NEW, now=beyond)
    assert (caught.value.age, caught.value.tolerance) == (sign_of * 301, 300)
    assert verify(BODY, headers, NEW, now=beyond, tolerance="6m").at == AT
    with pytest.raises(BadSignature):  # a stranger does not learn what our clock says
        verify(BODY, headers, OLD, now=beyond)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("webhook-id", ""),
        ("webhook-id", "a.b"),
        ("webhook-id", "a\nb"),
        ("webhook-id", "a" * 256),
        *(
            ("webhook-timestamp", text)
            for text in ("", "1.5", "-1", "1e9", "1_0", " 1", "1\n", "9" * 12, "01", "٣")
        ),
        ("webhook-signature", ""),
        ("webhook-signature", "v1,a " * 1000),
    ],
)
def test_w05_malformed_header_is_refused(header: str, value: str) -> None:
    with pytest.raises(BadWebhookHeader, match=header):
        verify(BODY, {**signed(), header: value}, NEW, now=AT)


def test_header_that_is_missing_or_given_twice_is_refused() -> None:
    headers = signed()
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        left = {other: value for other, value in headers.items() if other != name}
        with pytest.raises(BadWebhookHeader, match=f"{name} is missing"):
            verify(BODY, left, NEW, now=AT)
        twice = [*headers.items(), (name.upper(), headers[name])]
        with pytest.raises(BadWebhookHeader, match=f"{name} is given twice"):
            verify(BODY, twice, NEW, now=AT)


def test_ids_that_are_signed_have_no_full_stop() -> None:
    """Otherwise "a.1" with "x" and "a" with "1.x" would be one signed text."""
    for id in ("a.1", "", "a b"):
        with pytest.raises(BadWebhookHeader):
            signed(id=id)
    with pytest.raises(BadOption, match="aware"):
        signed(at=datetime(2030, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("scheme", SCHEMES)
def test_w07_every_pair_is_compared_in_constant_time(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    real = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    headers = signed(secrets=[NEW, OLD])
    verify(BODY, headers, [NEW, NEXT], scheme=scheme, now=AT)
    assert len(compared) == 4  # also after the first has matched


@pytest.mark.parametrize("scheme", SCHEMES)
def test_w08_no_delivery_fails_while_secrets_are_replaced_twice(scheme: Scheme) -> None:
    steps = [
        ([OLD], [OLD]),
        ([OLD], [NEW, OLD]),
        ([NEW, OLD], [NEW, OLD]),
        ([NEW, OLD], [NEW]),
        ([NEXT, NEW, OLD], [NEW]),
        ([NEXT, NEW, OLD], [NEXT, NEW]),
        ([NEXT], [NEXT]),
    ]
    for senders, receivers in steps:
        verify(BODY, signed(secrets=senders), receivers, scheme=scheme, now=AT)
    for dropped in (OLD, NEW):
        with pytest.raises(BadSignature):
            verify(BODY, signed(secrets=[NEXT]), dropped, scheme=scheme, now=AT)


def test_w11_endpoints_do_not_know_each_others_signatures() -> None:
    with pytest.raises(WebhookRejected):
        verify(BODY, signed(secrets=OLD), NEW, now=AT)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "secret",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_not base64 at all!!!!!!!!!!!!!!!!!!!!",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
    ],
)
def test_secret_that_is_too_short_or_none_is_refused_and_never_shown(secret: str) -> None:
    for secrets in (secret, [NEW, secret]):
        with pytest.raises(BadSecret) as caught:
            signed(secrets=secrets)
        assert len(secret) < 7 or secret[6:] not in str(caught.value)
        with pytest.raises(BadSecret):
            verify(BODY, signed(), secrets, now=AT)
    with pytest.raises(BadSecret, match="at least one"):
        signed(secrets=[])


def test_w10_new_secrets_differ() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(len(base64.b64decode(secret[6:])) == 32 for secret in made)
