"""Workers that are killed in the midst of durable steps, sleeps and waits."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from random import Random  # noqa: TID251 - of the test alone
from typing import Any

import pytest

from tests.faults.harness import Fleet, Stage, eventually, rest
from windlass import (
    ApprovalNotFound,
    ConflictError,
    IllegalTransition,
    Run,
    Status,
    StepNotRecorded,
)

SEATS: dict[str, Any] = {"concurrency": 4, "threads": 4}


def test_workflows_survive_kills_at_random_points(stage: Stage, fleet: Fleet) -> None:
    """F34, the short form."""
    kill_workflows(stage, fleet, runs=16, blows=10)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_workflows_survive_many_kills(stage: Stage, fleet: Fleet) -> None:
    """F34, the long form."""
    kill_workflows(stage, fleet, runs=200, blows=100)


def kill_workflows(stage: Stage, fleet: Fleet, *, runs: int, blows: int) -> None:
    random = Random(7)
    with stage.app.transaction() as tx:
        tx.execute("create table ends (run text)")
    jobs = [stage.app.jobs["workflow"], stage.app.jobs["workflow_in_thread"]]
    made = [jobs[n % 2].enqueue(n=n) for n in range(runs)]
    unsent = list(made)
    squad = [fleet.worker(**SEATS) for _ in range(2)]
    fleet.await_workers(*squad)
    for blow in range(blows):
        rest(random.uniform(0.05, 0.6))
        victim = squad[blow % 2]
        victim.kill()
        squad[blow % 2] = fleet.worker(**SEATS)
        for run in random.sample(unsent, min(len(unsent), 1 + 2 * runs // blows)):
            unsent.remove(run)
            send(run, random)
        control(random.sample(made, 3), random)
        approve_all(stage)
    for run in unsent:
        send(run, random)

    looks = count()

    def over() -> bool:
        if next(looks) % 10 == 0:
            stage.app.select(status="paused").resume()
            approve_all(stage)
        return all_ended(stage, made)

    eventually(over, within=60, what="every workflow has ended")

    stage.check(acked=[run.id for run in made])
    for run in made:
        assert_remembered(stage, run.refresh())
    with stage.app.transaction() as tx:
        ends = sorted(run for (run,) in tx.execute("select run from ends"))
    assert ends == sorted(run.id for run in made if run.job == "workflow")


def test_pipelines_survive_kills_at_random_points(stage: Stage, fleet: Fleet) -> None:
    """Only what is unfinished runs again, and what is shown of the phases is right at the end."""
    random = Random(11)
    jobs = [stage.app.jobs["pipeline"], stage.app.jobs["pipeline_in_thread"]]
    made = [jobs[n % 2].enqueue(n=n) for n in range(12)]
    squad = [fleet.worker(**SEATS) for _ in range(2)]
    fleet.await_workers(*squad)
    for blow in range(6):
        rest(random.uniform(0.05, 0.6))
        squad[blow % 2].kill()
        squad[blow % 2] = fleet.worker(**SEATS)
    eventually(lambda: all_ended(stage, made), within=60, what="every pipeline has ended")

    stage.check(acked=[run.id for run in made], witnessed=False)
    for run in made:
        last = assert_bodies(stage, run.refresh())
        assert {path: run.raw_result[path] for path in ("first", "second")} == {
            path: last[path] for path in ("first", "second")
        }
        assert [phase.status.value for phase in run.phases()] == ["succeeded"] * 3
        assert (run.progress, run.phase) == (1.0, "third")


def test_batches_survive_kills_and_count_exactly(stage: Stage, fleet: Fleet) -> None:
    """F27, the short form: whoever is killed, each unit is counted once."""
    kill_batch(stage, fleet, units=20_000, pause=0.5)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_batch_of_100_000_units_survives_kills(stage: Stage, fleet: Fleet) -> None:
    """F27, the long form."""
    kill_batch(stage, fleet, units=100_000, pause=0.5)


def kill_batch(stage: Stage, fleet: Fleet, *, units: int, pause: float) -> None:
    job = stage.app.jobs["counting"]
    run = stage.app.enqueue(job.name, {"units": {"range": [0, units, 1]}})
    squad = [fleet.worker(**SEATS) for _ in range(4)]
    fleet.await_workers(*squad)
    blow = 0
    while run.refresh().finished_at is None and blow < 40:
        counts = run.batch_counts()  # they add up at every read
        assert counts.processed == counts.succeeded + counts.failed <= units
        rest(pause)
        squad[blow % 4].kill()
        squad[blow % 4] = fleet.worker(**SEATS)
        blow += 1
    eventually(lambda: run.refresh().finished_at is not None, within=60, what="the batch has ended")

    assert run.status is Status.SUCCEEDED, run.error
    failed = len([n for n in range(units) if n % 97 == 13])
    counts = run.batch_counts()
    assert (counts.total, counts.succeeded, counts.failed) == (units, units - failed, failed)
    numbers: list[int] = []
    while page := run.failed_units(after=numbers[-1] if numbers else -1, limit=1000):
        numbers += [each.n for each in page]
    assert numbers == list(range(13, units, 97))
    stage.check(acked=[run.id], witnessed=False)


def send(run: Run, random: Random) -> None:
    """Answer the run, twice: the second time must not count."""
    for _ in range(2):
        run.signal("go", {"to": run.id}, key="once")
    if random.random() < 0.5:
        run.signal("fast")


def control(runs: list[Run], random: Random) -> None:
    """Do to runs what operators do, whatever their workers go through meanwhile."""
    for run in runs:
        with suppress(IllegalTransition, StepNotRecorded):
            match random.randrange(4):
                case 0 | 1:
                    run.pause()
                case 2:
                    run.resume()
                case 3 if run.refresh().finished_at is None:  # one that has failed would begin anew
                    run.restart(step="nap")


def approve_all(stage: Stage) -> None:
    """Answer what is asked."""
    for asked in stage.app.approvals():
        with suppress(ConflictError, ApprovalNotFound):
            stage.app.approve(asked.run, asked.name)


def all_ended(stage: Stage, runs: list[Run]) -> bool:
    ends = stage.app.store.operations.look_for_ends("default", [run.id for run in runs])
    return all(stage.app.store.run(ends).values())


def assert_remembered(stage: Stage, run: Run) -> None:
    """No body has run after its step was recorded, and the run has what was recorded."""
    last = assert_bodies(stage, run)
    result = run.raw_result
    assert {path: result[path] for path in last} == last
    assert result["go"] == {"to": run.id}
    assert result["squares"] == [k * k for k in range(run.input["n"], run.input["n"] + 4)]
    assert [child.status for child in run.children()] == [Status.SUCCEEDED] * 4
    assert result.get("ok", True) is True
    taken = [signal.taken_by for signal in signals_of(stage, run) if signal.name == "go"]
    assert taken == ["go"]


def assert_bodies(stage: Stage, run: Run) -> dict[str, str]:
    """What is recorded is what the last call of each body returned: none was called after that."""
    assert run.status is Status.SUCCEEDED, run.error
    last: dict[str, str] = {}
    for line in stage.witness.raw("bodies"):
        of, step, nonce = line.split()
        if of == run.id:
            last[step] = nonce
    steps = [*run.steps()]
    for generation in run.generations():
        steps += run.steps(generation=generation.number)
    recorded = {s.path: s.value for s in steps if s.kind in ("step", "phase")}
    recorded.pop("third", None)  # which returns the others'
    assert {path: f'"{nonce}"' for path, nonce in last.items() if path != "third"} == {
        path: bytes(value or b"").decode() for path, value in recorded.items()
    }
    return last


def signals_of(stage: Stage, run: Run) -> Any:
    return stage.app.store.run(stage.app.store.operations.list_signals("default", run.id, 0, 100))
