"""How a transport hears of runs that are ready; one for later is found by the dispatchers."""

from collections.abc import Sequence

from windlass.domain.run import Enqueued, NewRun, RunRecord, RunRef
from windlass.domain.states import Status
from windlass.transport.interface import Transport, encode_message


def publish_created(
    transport: Transport, runs: Sequence[NewRun], answers: Sequence[Enqueued]
) -> bool:
    """Send the messages of runs that an enqueue made; returns whether workers need a hint."""
    if not any(answer.created for answer in answers):
        return False
    if not transport.pulls:
        transport.publish(
            [
                encode_message(RunRef(run.tenant, answer.id))
                for run, answer in zip(runs, answers, strict=True)
                if answer.created and answer.status is Status.QUEUED
            ]
        )
    return any(answer.created and not answer.hinted for answer in answers)


def publish_moved(transport: Transport, record: RunRecord) -> None:
    """Send the message of a run that a verb moved, if that made it ready."""
    if record.status is Status.QUEUED:
        transport.publish([encode_message(RunRef(record.tenant, record.id))])
