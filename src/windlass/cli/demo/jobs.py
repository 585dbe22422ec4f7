"""The jobs of the demo: small, and each with one thing to show.

They are functions of a module, so that a child process can find the one that must run alone.
"""

import asyncio
import hashlib
import os
import signal
import threading
import time
from typing import Any

from windlass.app import Windlass
from windlass.context import Context, SyncContext
from windlass.domain.outcome import Snooze
from windlass.domain.policy import Fatal, Retry

QUEUE = "demo"
RISKY = "demo-risky"
"""For runs whose worker is going to die."""
BURST = "demo-burst"
CLOSED = "demo-closed"
"""A queue that no worker serves."""

RETRY = Retry.fixed("600ms", jitter=0)
_QUICK: dict[str, Any] = {
    "renew": "200ms",
    "sweep": "200ms",
    "poll": "200ms",
    "drain": "1s",
    "threads": 2,
}


def make_app(url: str, lease: str = "6s") -> Windlass:
    """An application with the demo's jobs; everything that polls does so often."""
    app = Windlass(url, lease=lease, process_seats=1, **_QUICK)
    jobs: dict[Any, dict[str, Any]] = {
        greet: {},
        import_orders: {},
        charge_card: {"retry": RETRY, "max_attempts": 5},
        fetch_report: {},
        remind: {},
        checksum: {},
        resize: {},
        sync_contacts: {"retry": RETRY, "max_attempts": 3},
        send_mail: {},
        solve: {"timeout": "1s", "max_attempts": 1},
        render: {},
        water_plants: {},
        copy_archive: {"queue": RISKY},
        divide_by_zero: {"queue": RISKY},
        tick: {"queue": BURST},
    }
    for function, options in jobs.items():
        app.job(name=f"demo.{function.__name__}", **({"queue": QUEUE} | options))(function)
    return app


# -- good ones ---------------------------------------------------------------------------------


async def greet(name: str) -> str:
    """Says hello."""
    return f"Hello, {name}"


async def import_orders(ctx: Context, rows: int) -> str:
    """Takes its time, and tells how far it is."""
    steps = 40
    for step in range(1, steps + 1):
        await asyncio.sleep(0.09)
        await ctx.progress(step / steps, f"{rows * step // steps:,} of {rows:,}")
    return f"{rows:,} rows"


async def charge_card(ctx: Context, amount: int) -> str:
    """Succeeds at the third try."""
    if ctx.attempt < 3:
        raise ConnectionError("the bank does not answer")
    return f"{amount} charged"


async def fetch_report(ctx: Context) -> str | Snooze:
    """Asks to be called again."""
    return Snooze("1500ms") if ctx.attempt == 1 else "the report is there"


async def remind(what: str) -> str:
    """Was enqueued for later."""
    return what


def checksum(ctx: SyncContext, megabytes: int) -> str:
    """Blocks, in a thread."""
    found = hashlib.sha256(bytes(megabytes * 1_000_000)).hexdigest()
    return f"{found[:6]}, {threading.current_thread().name}"


def resize(image: int) -> int:
    """One of many that wait for few threads."""
    time.sleep(0.05)
    return image


async def water_plants() -> str:
    """Is made by a schedule."""
    return "watered"


async def tick(n: int) -> int:
    """One of thousands."""
    return n


# -- bad ones ----------------------------------------------------------------------------------


async def sync_contacts() -> None:
    """Fails whenever it is tried."""
    raise RuntimeError("503")


async def send_mail(to: str) -> None:
    """Fails for good."""
    raise Fatal("no such mailbox")


async def solve() -> None:
    """Takes longer than it may."""
    await asyncio.sleep(60)


async def render() -> None:
    """Is canceled."""
    await asyncio.sleep(60)


# -- those whose worker dies -------------------------------------------------------------------


async def copy_archive(ctx: Context, files: int) -> str:
    """Somebody kills the process that it runs in; it begins again in another."""
    for file in range(1, files + 1):
        await asyncio.sleep(0.1)
        await ctx.progress(file / files, f"file {file} of {files}")
    return f"{files} files"


async def divide_by_zero() -> None:
    """Kills the process that it runs in, as a fault in a C library does."""
    os.kill(os.getpid(), signal.SIGKILL)
