"""What a transport carries: its bytes are a protocol, and whatever else arrives is dropped."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.apps import PATIENCE, opened, working
from windlass.domain.run import RunRef
from windlass.transport.interface import decode_message, encode_message
from windlass.transport.memory import MemoryTransport

ID = "01900000-0000-7000-8000-00000000000a"

WRITTEN = {
    RunRef("default", ID): b'{"version":1,"windlassRunId":"%s"}' % ID.encode(),
    RunRef("acme", ID): b'{"version":1,"windlassRunId":"acme/%s"}' % ID.encode(),
    RunRef("a.b-c_1", ID): b'{"version":1,"windlassRunId":"a.b-c_1/%s"}' % ID.encode(),
}

READ = {
    # JSON, whoever wrote it
    "with spaces": (b'{"version": 1, "windlassRunId": "%s"}', RunRef("default", ID)),
    "in another order": (b'{"windlassRunId":"acme/%s","version":1}', RunRef("acme", ID)),
    "the default by name": (b'{"version":1,"windlassRunId":"default/%s"}', RunRef("default", ID)),
    "escaped": (b'{"version":1,"windlassRunId":"\\u0061cme/%s"}', RunRef("acme", ID)),
}

REFUSED = {
    "nothing": b"",
    "an id": ID.encode(),
    "not JSON": b"\x80\x04\x95",
    "half of one": WRITTEN[RunRef("default", ID)][:-1],
    "one and a half": WRITTEN[RunRef("default", ID)] + b"{",
    "another coding": WRITTEN[RunRef("default", ID)].decode().encode("utf-16"),
    "an array": b'[1, "%s"]' % ID.encode(),
    "null": b"null",
    "very deep": b"[" * 100_000,
    "no version": b'{"windlassRunId":"%s"}' % ID.encode(),
    "an older version": b'{"version":0,"windlassRunId":"%s"}' % ID.encode(),
    "a later version": b'{"version":2,"windlassRunId":"%s"}' % ID.encode(),
    "a version in words": b'{"version":"1","windlassRunId":"%s"}' % ID.encode(),
    "a version that is true": b'{"version":true,"windlassRunId":"%s"}' % ID.encode(),
    "two versions": b'{"version":1,"windlassRunId":"%s","version":2}' % ID.encode(),
    "no run": b'{"version":1}',
    "a run under another name": b'{"version":1,"run":"%s"}' % ID.encode(),
    "a run that is a number": b'{"version":1,"windlassRunId":7}',
    "a run that is null": b'{"version":1,"windlassRunId":null}',
    "no id": b'{"version":1,"windlassRunId":""}',
    "a tenant alone": b'{"version":1,"windlassRunId":"acme/"}',
    "a name": b'{"version":1,"windlassRunId":"send_welcome"}',
    "a short id": b'{"version":1,"windlassRunId":"%s"}' % ID[:-1].encode(),
    "a long id": b'{"version":1,"windlassRunId":"%s0"}' % ID.encode(),
    "an id in capitals": b'{"version":1,"windlassRunId":"%s"}' % ID.upper().encode(),
    "an id in braces": b'{"version":1,"windlassRunId":"{%s}"}' % ID.encode(),
    "an id without hyphens": b'{"version":1,"windlassRunId":"%s"}' % ID.replace("-", "").encode(),
    "hyphens elsewhere": b'{"version":1,"windlassRunId":"----0190000000007000800000000000000a"}',
    "an id and a line": b'{"version":1,"windlassRunId":"%s\\n"}' % ID.encode(),
    "a digit that is none": f'{{"version":1,"windlassRunId":"{chr(0x660)}{ID[1:]}"}}'.encode(),
    "an empty tenant": b'{"version":1,"windlassRunId":"/%s"}' % ID.encode(),
    "a tenant with a NUL": b'{"version":1,"windlassRunId":"a\\u0000/%s"}' % ID.encode(),
    "half a character": b'{"version":1,"windlassRunId":"\\ud800/%s"}' % ID.encode(),
}  # fmt: skip


@pytest.mark.parametrize("run", WRITTEN, ids=lambda run: run.tenant)
def test_a_message_names_its_version_and_the_run_and_nothing_else(run: RunRef) -> None:
    message = encode_message(run)
    assert message == WRITTEN[run]
    name = run.id if run.tenant == "default" else f"{run.tenant}/{run.id}"
    assert json.loads(message) == {"version": 1, "windlassRunId": name}
    assert decode_message(message) == run


@pytest.mark.parametrize("name", READ)
def test_messages_of_other_writers_are_read(name: str) -> None:
    text, run = READ[name]
    assert decode_message(text % ID.encode()) == run


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_message_of_ours_is_dropped(name: str) -> None:
    assert decode_message(REFUSED[name]) is None


async def test_what_is_dropped_takes_nothing_with_it(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It arrives with good messages, and would be refused by the store together with them."""
    transport = MemoryTransport()
    async with opened(url, transport=transport) as app:

        @app.job
        async def nothing() -> None: ...

        run = await nothing.aenqueue()
        (good,) = await transport.receive(10)
        transport.publish([*REFUSED.values(), good])
        async with working(app, resend_after=PATIENCE * 2):
            await app.await_end(run.id, timeout=PATIENCE)
    assert [line.message for line in caplog.records if line.levelname == "ERROR"] == []
