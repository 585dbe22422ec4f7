"""The end of a schedule, in transactions of a bounded size."""

from windlass.domain.scheduling.rows import ScheduleRef
from windlass.store.flow import Flow
from windlass.store.interface import Store


def delete_wholly(store: Store, ref: ScheduleRef) -> Flow[None]:
    """Delete a schedule, and then what is left of its slots.

    Once a second for a year is 31 million slots. Whoever is interrupted leaves the rest to the
    next who deletes one, or to the next scheduler that starts.
    """
    yield store.operations.delete_schedule(ref)
    while (yield store.operations.forget_slots()):
        pass
