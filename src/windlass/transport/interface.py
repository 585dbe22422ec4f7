"""The transport's seam.

A transport carries run ids and nothing else; it may lose, double and reorder them. What it
delivers is a hint to claim *that* run: the claim decides. What it loses is sent again by the
dispatcher's sweep, since a run stays ready in the store until it is claimed.

The message is JSON, ``{"version": 1, "windlassRunId": "…"}``. Outside the tenant ``default``
the id is written ``tenant/id``. A message that is something else is dropped.
"""

import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.domain.run import DEFAULT_TENANT, RunRef

MESSAGE_VERSION = 1


class Transport(Protocol):
    """Brings run ids to workers."""

    @property
    def pulls(self) -> bool:
        """True: there are no messages; workers claim from the heads of their queues."""
        ...

    def publish(self, messages: Sequence[bytes]) -> None:
        """Send messages. From any thread; quick; a failure may be silent."""
        ...

    async def receive(self, limit: int) -> Sequence[bytes]:
        """Wait for messages, at least one; cancelling it loses none that were not returned."""
        ...

    async def close(self) -> None:
        """Stop receiving."""
        ...


class _Message(msgspec.Struct, rename={"run": "windlassRunId"}):
    version: int
    run: str


_decoder = msgspec.json.Decoder(_Message)
# No more than every store can read: what one refuses, it would refuse with its neighbours.
_NAME = re.compile(r"(?:([^\x00]+)/)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def encode_message(run: RunRef) -> bytes:
    """Write the message for a run."""
    name = run.id if run.tenant == DEFAULT_TENANT else f"{run.tenant}/{run.id}"
    return msgspec.json.encode(_Message(version=MESSAGE_VERSION, run=name))


def decode_message(body: bytes) -> RunRef | None:
    """Read a message; None if it is not one of ours."""
    try:
        message = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    name = _NAME.fullmatch(message.run)
    if message.version != MESSAGE_VERSION or name is None:
        return None
    tenant, run = name.groups()
    return RunRef(tenant or DEFAULT_TENANT, run)
