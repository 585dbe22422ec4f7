"""What one round trip to the store carries."""

from dataclasses import dataclass

import msgspec

from windlass.domain.outcome import Outcome
from windlass.domain.run import CycleReply, Finish, Held, Want
from windlass.engine.hosts import PumpHost
from windlass.engine.lanes import Lane
from windlass.engine.search import Look
from windlass.store.interface import Store


@dataclass(slots=True)
class Trip:
    """One round trip to the store."""

    finishes: list[Finish]
    worker: str = ""  # the name under which it is sent
    want: Want | None = None
    claim_no: int = 0
    lane: Lane | None = None  # whose claim it is; none for runs that a transport brought
    look: Look | None = None  # what the lane remembers of it
    alone: bool = False  # one end that the store failed on before
    weight: int = 0  # of its ends; at least what was allowed, where some had to stay behind

    @property
    def kinds(self) -> int:
        """Whether it has ends, or asks for runs, or both."""
        return bool(self.finishes) + (self.want is not None)


def goes_back(finish: Finish) -> bool:
    """Whether the run is ready again at once."""
    if finish.outcome in (Outcome.RETRY, Outcome.SNOOZED):
        return not finish.delay
    if finish.outcome is Outcome.CRASHED:
        return finish.failure is None
    return finish.outcome in (Outcome.RELEASED, Outcome.CONTINUED)


async def exchange(store: Store, host: PumpHost, trip: Trip) -> CycleReply:
    """Send the ends and ask for runs. An end whose last progress cannot be written yet is busy."""
    finishes = trip.finishes
    kept = await host.before_ends(finishes) if finishes else ()
    if kept:
        finishes = [f for f in finishes if Held(f.tenant, f.id, f.token) not in kept]
    call = store.operations.cycle(trip.worker, trip.claim_no, finishes, trip.want)
    if trip.want is None:
        call = call.once()  # the store would send just as much again
    reply = await store.arun(call)
    return msgspec.structs.replace(reply, busy=(*reply.busy, *kept)) if kept else reply
