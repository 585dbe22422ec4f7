"""A call through the guard, and what came of it, as JSON can carry it."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass.egress import EgressGuard, EgressPolicy, Limits
from windlass.errors import WindlassError

TIME = 10.0
"""More than any call of the tests takes, if it is to be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call, with a guard of its own."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    redirects: int = 0
    policy: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)


def trusting(folder: Path) -> ssl.SSLContext:
    """Trust the authority of the tests."""
    return ssl.create_default_context(cafile=folder / "ca.pem")


async def make_call(call: Call, tls: ssl.SSLContext, **parts: Any) -> dict[str, Any]:
    """Make a call; an error of ours is what came of it, any other is raised."""
    loop = asyncio.get_running_loop()
    limits = Limits(**{"timeout": TIME, **call.limits})
    policy = EgressPolicy(**call.policy)
    before = loop.time()
    try:
        async with EgressGuard(policy, limits=limits, tls=tls, **parts) as guard:
            answer = await guard.request(
                call.method,
                call.url,
                headers=call.headers,
                body=call.body.encode(),
                redirects=call.redirects,
            )
    except WindlassError as error:
        return {
            "error": error.code,
            "reason": getattr(error, "reason", None),
            "text": str(error),
            "traceback": "".join(traceback.format_exception(error)),
            "seconds": loop.time() - before,
        }
    return {
        "status": answer.status,
        "body": answer.body.decode("latin-1"),
        "url": answer.url,
        "truncated": answer.truncated,
        "seconds": loop.time() - before,
    }
