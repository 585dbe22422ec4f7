"""F18: pauses that come and go while workers are at work, and while they are killed."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random  # noqa: TID251 - of the test alone
from typing import Any

import pytest

from tests.faults.harness import Fleet, Stage, eventually, rest
from windlass import AttemptOutcome, IllegalTransition, Run, Status

SEATS: dict[str, Any] = {"concurrency": 4, "threads": 4}


def test_nothing_starts_once_a_pause_is_acknowledged(stage: Stage, fleet: Fleet) -> None:
    """The short form."""
    flap(stage, fleet, turns=16)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_nothing_starts_once_any_of_many_pauses_is_acknowledged(stage: Stage, fleet: Fleet) -> None:
    """The long form."""
    flap(stage, fleet, turns=400)


def flap(stage: Stage, fleet: Fleet, *, turns: int) -> None:
    """Pause and resume, 20 times a second: the queue in each other turn, a few runs in the rest."""
    random = Random(3)
    squad = [fleet.worker(**SEATS) for _ in range(2)]
    fleet.await_workers(*squad)
    runs = stage.load(turns * 10, ms=(30, 110))
    closed: list[tuple[Run | None, datetime, datetime]] = []  # what might not start, and when
    for turn in range(turns):
        paused: list[Run | None] = [None]
        if turn % 2 == 0:
            stage.app.pause_queue("default")
        else:
            # One that was claimed by now is asked to, and runs to its end.
            paused = [run for run in random.sample(runs[len(runs) // 2 :], 5) if pause(run)]
        begin = now()
        rest(0.05)
        if turn == turns // 2:
            squad[0].kill()
            squad[0] = fleet.worker(**SEATS)
        closed += [(run, begin, now()) for run in paused]
        if turn % 2 == 0:
            stage.app.resume_queue("default")
        else:
            stage.app.select(status="paused").resume()

    def over() -> bool:
        # One that was to pause, and whose worker was killed, is paused only now.
        return not stage.live() and not stage.app.select(status="paused").resume().done

    eventually(over, within=60, what="every run has ended")

    stage.check(acked=[run.id for run in runs])
    starts = [(a.started_at, run.id) for run in runs for a in run.refresh().attempts]
    for what, begin, end in closed:
        broken = [at for at, run in starts if begin < at < end and (what is None or what.id == run)]
        assert broken == []
    assert any(run is not None for run, _, _ in closed)


def test_a_worker_is_killed_amid_a_pause_and_a_resume(stage: Stage, fleet: Fleet) -> None:
    """What an operator was told stands, whoever takes the run of the dead worker back."""
    fleet.ready_worker(jobs=["quick"])  # which looks after what the others leave
    victim = fleet.ready_worker(jobs=["hold"])
    run = stage.app.jobs["hold"].enqueue(n=1)
    stage.await_start(run.id)

    assert run.pause("a look").pause_requested
    victim.kill()  # after it was asked, before it has given the run back
    eventually(lambda: run.refresh().status == "paused", what="it is paused")
    assert (run.attempts[-1].outcome, run.crash_count) == (AttemptOutcome.CRASHED, 1)

    assert run.resume().status == "queued"
    victim = fleet.worker(jobs=["hold"])
    stage.await_start(run.id, attempt=2)
    assert run.pause().pause_requested
    assert not run.resume().pause_requested
    victim.kill()  # after the request was taken back
    eventually(lambda: run.refresh().status == "queued", what="it is ready again")

    assert run.pause().status == "paused"
    assert run.restart().status == "queued"
    victim = fleet.worker(jobs=["hold"])
    stage.await_start(run.id, attempt=3)
    victim.kill()  # in its new beginning
    eventually(lambda: run.refresh().status == "queued", what="it is ready once more")
    assert run.terminate("enough").status is Status.CANCELED
    stage.check(acked=[run.id])
    requests = [(request.kind, request.became) for request in run.stop_requests()]
    assert requests == [("pause", "run.paused"), ("pause", "run.resumed")]


def pause(run: Run) -> bool:
    """Whether the run has stopped at once."""
    try:
        return run.pause().status is Status.PAUSED
    except IllegalTransition:  # it has ended
        return False


def now() -> datetime:
    """By the machine's clock, which is the store's here."""
    return datetime.now(UTC)  # noqa: TID251 - the nemesis has a clock of its own
