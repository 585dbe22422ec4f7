"""What a worker and its services work with."""

from dataclasses import dataclass, field

from windlass.artifacts.place import place_of
from windlass.client import Ground
from windlass.config import Settings
from windlass.domain.retention import terms_of
from windlass.engine.options import RESEND_AFTER, WorkerOptions
from windlass.sources import Sources
from windlass.store.interface import Store
from windlass.transport.interface import Transport
from windlass.transport.store import StoreTransport


@dataclass(frozen=True, slots=True)
class Environment:
    """The store, the sources of time and ids, the transport, and the options."""

    store: Store
    sources: Sources
    options: WorkerOptions = field(default_factory=WorkerOptions)
    transport: Transport = field(default_factory=StoreTransport)


def environment_of(
    ground: Ground, settings: Settings, *, resend_after: float = RESEND_AFTER
) -> Environment:
    """The environment of an application, with these settings."""
    options = WorkerOptions(
        lease=settings.lease,
        renew=settings.renew,
        sweep=settings.sweep,
        drain=settings.drain,
        poll=settings.poll,
        max_crashes=settings.max_crashes,
        max_steps=settings.max_steps,
        run_logs=settings.run_logs,
        concurrency=settings.concurrency,
        threads=settings.threads,
        process_seats=settings.process_seats,
        suspect_seats=settings.suspect_seats,
        cancel_grace=settings.cancel_grace,
        recycle_runs=settings.recycle_runs,
        recycle_memory=settings.recycle_memory,
        queues=settings.queues,
        result_limit=settings.payload_limit,
        artifacts=place_of(settings),
        artifact_limit=settings.artifact_limit,
        retention=terms_of(settings),
        resend_after=resend_after,
        tenant=settings.tenant,
    )
    return Environment(ground.workers_store, ground.sources, options, ground.transport)
