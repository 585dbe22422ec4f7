"""The jobs of the demo: small, and each with one thing to show."""

import asyncio
import hashlib
import threading
import time

from windlass.app import Windlass
from windlass.context import Context, SyncContext
from windlass.domain.outcome import Snooze
from windlass.domain.policy import Fatal, Retry

QUEUE = "demo"
BURST = "demo-burst"
CLOSED = "demo-closed"
"""A queue that no worker serves."""

RETRY = Retry.fixed("600ms", jitter=0)


def make_app(url: str) -> Windlass:
    """An application with the demo's jobs; everything that polls does so often."""
    app = Windlass(
        url, lease="6s", renew="200ms", sweep="200ms", poll="200ms", drain="1s", threads=2
    )
    _add_good_ones(app)
    _add_bad_ones(app)
    return app


def _add_good_ones(app: Windlass) -> None:
    @app.job(name="demo.greet", queue=QUEUE)
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    @app.job(name="demo.import_orders", queue=QUEUE)
    async def import_orders(ctx: Context, rows: int) -> str:
        steps = 40
        for step in range(1, steps + 1):
            await asyncio.sleep(0.09)
            await ctx.progress(step / steps, f"row {rows * step // steps:,} of {rows:,}")
        return f"{rows:,} rows"

    @app.job(name="demo.charge_card", queue=QUEUE, retry=RETRY, max_attempts=5)
    async def charge_card(ctx: Context, amount: int) -> str:
        if ctx.attempt < 3:
            raise ConnectionError("the bank does not answer")
        return f"{amount} charged"

    @app.job(name="demo.fetch_report", queue=QUEUE)
    async def fetch_report(ctx: Context) -> str | Snooze:
        return Snooze("1500ms") if ctx.attempt == 1 else "the report is there"

    @app.job(name="demo.remind", queue=QUEUE)
    async def remind(what: str) -> str:
        return what

    @app.job(name="demo.checksum", queue=QUEUE)
    def checksum(ctx: SyncContext, megabytes: int) -> str:
        found = hashlib.sha256(bytes(megabytes * 1_000_000)).hexdigest()
        return f"{found[:8]}… by thread {threading.current_thread().name}"

    @app.job(name="demo.resize", queue=QUEUE)
    def resize(image: int) -> int:
        time.sleep(0.05)
        return image

    @app.job(name="demo.tick", queue=BURST)
    async def tick(n: int) -> int:
        return n


def _add_bad_ones(app: Windlass) -> None:
    @app.job(name="demo.sync_contacts", queue=QUEUE, retry=RETRY, max_attempts=3)
    async def sync_contacts() -> None:
        raise RuntimeError("503 Service Unavailable")

    @app.job(name="demo.send_mail", queue=QUEUE)
    async def send_mail(to: str) -> None:
        raise Fatal(f"there is no mailbox {to}")

    @app.job(name="demo.solve", queue=QUEUE, timeout="1s", max_attempts=1)
    async def solve() -> None:
        await asyncio.sleep(60)

    @app.job(name="demo.render", queue=QUEUE)
    async def render() -> None:
        await asyncio.sleep(60)
