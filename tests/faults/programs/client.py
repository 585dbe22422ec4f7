"""A client process that enqueues one run after the other and writes down each acknowledgement.

`python -m tests.faults.programs.client CONFIG`. The line `n id` is on the disk before the next
call is made; what it was about to ask for is written first, so that every call is known whose
outcome is not.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from tests.faults.programs.jobs import Witness, define_jobs
from windlass import StoreUnavailable, Windlass
from windlass.domain.run import NewRun

_LOOK = 0.01


class Config(msgspec.Struct, kw_only=True):
    """What the process is told, as JSON."""

    url: str
    folder: str
    first: int = 0
    count: int = 1_000_000
    ms: int = 20
    by: Literal["call", "key", "id"] = "call"
    patient: bool = False  # ask again where the store cannot be reached
    settings: dict[str, Any] = {}


def enqueue(app: Windlass, config: Config, n: int) -> str:
    """Enqueue the n-th run; by key and by id a repetition makes no second one."""
    arguments = {"n": n, "ms": config.ms}
    if config.by == "id":
        new = NewRun(
            id=id_of(n),
            job="load",
            queue="default",
            input=msgspec.Raw(msgspec.json.encode(arguments)),
        )
        return app.store.run(app.store.operations.enqueue([new]))[0].id
    if config.by == "key":
        return app.enqueue("load", arguments, key=f"key-{n}").id
    return app.enqueue("load", arguments).id


def insist(app: Windlass, config: Config, n: int, witness: Witness) -> str:
    """Enqueue the n-th run, however often that is refused."""
    while True:
        try:
            return enqueue(app, config, n)
        except StoreUnavailable as error:
            witness.append("refused", str(error))
            time.sleep(_LOOK)


def id_of(n: int) -> str:
    """The id that this client makes for its n-th run."""
    return f"01900000-0000-7000-8000-{n:012x}"


def main(config: Config) -> None:
    """Enqueue until killed, or until all are acknowledged."""
    witness = Witness(Path(config.folder))
    app = Windlass(config.url, **config.settings)
    define_jobs(app, witness)
    for n in range(config.first, config.first + config.count):
        witness.append("asked", str(n))
        began = time.monotonic()
        run = insist(app, config, n, witness) if config.patient else enqueue(app, config, n)
        took = time.monotonic() - began
        witness.append("acks", f"{n} {run}", sync=True)
        witness.append("took", repr(took))
    app.close()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Config))
