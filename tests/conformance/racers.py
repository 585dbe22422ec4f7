"""What the processes of a race do; a module of its own, so that a new process can import it."""

from __future__ import annotations

from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from tests.conformance.kit import Driver
from tests.conformance.places import Place, opened
from windlass.sources import Sources

KEY = "one-of-many"
SHARE = 3


def enqueue_and_claim(place: Place, name: str, start: Barrier, told: Queue[object]) -> None:
    """Enqueue a run under a key that all use, then claim until nothing is left."""
    sources = Sources.system()
    with place.open(sources) as store, opened(place) as tables:
        drive = Driver(store, store.run, sources, tables)
        drive.register(name)
        start.wait()
        (answer,) = drive.enqueue(drive.new(key=KEY, queue="keyed"))
        claimed: list[str] = []
        while True:
            some = drive.claim(SHARE, worker=name, queues=("main",)).claimed
            if not some:
                break
            claimed += [run.id for run in some]
        told.put((answer.id, answer.created, claimed))


def migrate(place: Place, start: Barrier, told: Queue[object]) -> None:
    """Make the schema, together with others, and use it."""
    sources = Sources.system()
    with place.open(sources) as store, opened(place) as tables:
        start.wait()
        versions = store.migrate()
        drive = Driver(store, store.run, sources, tables)
        told.put((versions, drive.add().id))
