"""A worker process of the fault tests: `python -m tests.faults.programs.worker CONFIG`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from tests.faults.programs.jobs import Witness, define_jobs
from windlass import Windlass
from windlass.engine import lanes
from windlass.engine.renewal import Renewal
from windlass.engine.seats import Seats
from windlass.store.interface import Call
from windlass.store.sqlite import store as sqlite_store
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.operations import Bound, bind

T = TypeVar("T")


class Config(msgspec.Struct, kw_only=True):
    """What the process is told, as JSON."""

    url: str
    folder: str
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    jobs: list[str] | None = None
    ahead: float | None = None  # seconds for which it claims ahead of its seats, and keeps that
    stop_in_commit: str | None = None  # "before" or "after" the commit that follows `armed`


async def work(app: Windlass, witness: Witness, options: dict[str, Any]) -> None:
    """Work until SIGTERM."""
    worker = app.worker(**options)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    witness.append("begun", str(os.getpid()))
    try:
        await worker.run()
    finally:
        await app.aclose()


def stop_in_commit(witness: Witness, when: str) -> None:
    """Stop this process in the commit of its writer thread that ends an attempt, once the flag
    `armed` is up: a claim may be committed between the two."""
    ending = False

    def watched(call: Call[T]) -> Bound[T]:
        bound = bind(call)
        at_once = bound.at_once
        if at_once is None:
            return bound

        def noted(tx: OpenTransaction) -> Callable[[], T] | None:
            nonlocal ending
            ending = ending or (call.name == "cycle" and bool(call.arguments[2]))
            return at_once(tx)

        bound.at_once = noted
        return bound

    def stop() -> None:
        writing = threading.current_thread().name == "windlass-sqlite-writer"
        if writing and ending and witness.flag("armed"):
            witness.lower_flag("armed")
            witness.append("stopped", str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)

    def before() -> bool:
        stop()
        return False  # true would undo the transaction

    check = Connection._check_committed

    def after(self: Connection) -> None:
        stop()
        check(self)

    sqlite_store.bind = watched  # type: ignore[attr-defined]
    if when == "before":
        apsw.connection_hooks.append(lambda connection: connection.set_commit_hook(before))
    else:
        Connection._check_committed = after  # type: ignore[method-assign]


def renew_late(witness: Witness) -> None:
    """Renew nothing while the flag `late` is up, as if the thread had not got its turn."""
    renew = Renewal._renew

    def late(self: Renewal) -> bool:
        while witness.flag("late"):
            time.sleep(0.01)
        return renew(self)

    Renewal._renew = late  # type: ignore[method-assign]


def claim_ahead(seconds: float) -> None:
    """Claim far ahead of the seats, as only very fast workers do, and keep what finds no seat.

    It would be given back after a second, which is sooner than any lease comes into doubt.
    """
    lanes._AHEAD_SECONDS, lanes._AHEAD_LEAST = seconds, 1
    Seats.watch = lambda *_: None  # type: ignore[method-assign]


def main(config: Config) -> None:
    """Run one worker."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    witness = Witness(Path(config.folder))
    if config.stop_in_commit is not None:
        stop_in_commit(witness, config.stop_in_commit)
    renew_late(witness)
    if config.ahead is not None:
        claim_ahead(config.ahead)
    app = Windlass(config.url, **config.settings)
    define_jobs(app, witness, config.jobs)
    asyncio.run(work(app, witness, config.options))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Config))
