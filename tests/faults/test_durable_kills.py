"""Workers that are killed in the midst of durable steps, sleeps and waits."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from itertools import count
from random import Random  # noqa: TID251 - of the test alone
from typing import Any, Self

import pytest

from tests.faults.harness import Fleet, Stage, eventually, rest
from windlass import (
    ApprovalNotFound,
    BatchCounts,
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


@pytest.mark.timeout(180)
def test_batches_survive_kills_and_count_exactly(stage: Stage, fleet: Fleet) -> None:
    """F27, the short form: whoever is killed, each unit is counted once, at every read."""
    kill_batch(stage, fleet, "counting", units=12_000, nap=0.003, least=3)


@pytest.mark.timeout(180)
def test_a_shard_is_split_while_its_workers_are_killed(stage: Stage, fleet: Fleet) -> None:
    run = kill_batch(stage, fleet, "halving", units=6_000, nap=0.003, least=3)
    assert run.batch_counts().shards > 3


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_batch_of_100_000_units_survives_kills(stage: Stage, fleet: Fleet) -> None:
    """F27, the long form: of four workers one is killed every half second."""
    kill_batch(stage, fleet, "counting", units=100_000, nap=0.004, least=30)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_shard_of_100_000_units_is_split_under_kills(stage: Stage, fleet: Fleet) -> None:
    run = kill_batch(stage, fleet, "halving", units=100_000, nap=0.004, least=30)
    assert run.batch_counts().shards > 10


def kill_batch(stage: Stage, fleet: Fleet, job: str, *, units: int, nap: float, least: int) -> Run:
    run = stage.app.enqueue(job, {"units": {"range": [0, units, 1]}, "nap": nap})
    squad = [fleet.worker(**SEATS) for _ in range(4)]
    fleet.await_workers(*squad)
    blows = 0
    with Reader(run, units) as reader:
        while not finished(run) and blows < 300:
            done = run.batch_counts().processed
            rest(0.5)
            # Where the machine is so busy that nothing gets done in half a second, a little later.
            eventually(partial(gets_on, run, done), within=60, what="the batch gets on")
            squad[blows % 4].kill()
            squad[blows % 4] = fleet.worker(**SEATS)
            blows += 1
        eventually(lambda: finished(run), within=60, what="the batch has ended")
    assert blows >= least, "the batch has ended before it was hit"
    assert reader.reads > blows

    assert run.status is Status.SUCCEEDED, run.error
    failed = len([n for n in range(units) if n % 97 == 13])
    counts = run.batch_counts()
    assert (counts.total, counts.succeeded, counts.failed) == (units, units - failed, failed)
    assert failed_numbers(run) == list(range(13, units, 97))
    stage.check(acked=[run.id], witnessed=False)
    return run


def gets_on(run: Run, done: int) -> bool:
    return run.batch_counts().processed > done or finished(run)


def finished(run: Run) -> bool:
    return run.refresh().finished_at is not None


class Reader:
    """Reads the counts of a batch again and again, in a thread: they add up at every read."""

    def __init__(self, run: Run, units: int) -> None:
        self._run = run
        self._units = units
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._wrong: list[str] = []
        self.reads = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        assert self._wrong == []

    def _read(self) -> None:
        last = BatchCounts()
        while not self._over.wait(0.02):
            counts = self._run.batch_counts()
            rows = len(failed_numbers(self._run))
            again = self._run.batch_counts()
            right = (
                counts.total in (None, self._units)
                and last.succeeded <= counts.succeeded
                and last.failed <= counts.failed <= rows <= again.failed
                and counts.processed + (counts.left or 0) == (counts.total or 0)
                and counts.processed <= self._units
            )
            if not right:
                self._wrong.append(f"{last}, {counts}, {rows} failures, {again}")
                return
            last = again
            self.reads += 1


def failed_numbers(run: Run) -> list[int]:
    numbers: list[int] = []
    while page := run.failed_units(after=numbers[-1] if numbers else -1, limit=1000):
        numbers += [each.n for each in page]
    return numbers


def test_the_end_of_a_batch_is_told_once_whoever_is_killed(stage: Stage, fleet: Fleet) -> None:
    """Kills while shards come together: `on_complete` and `on_failure` are started once each."""
    gather_under_kills(stage, fleet, batches=24, blows=8)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_ends_of_many_batches_are_told_once(stage: Stage, fleet: Fleet) -> None:
    gather_under_kills(stage, fleet, batches=300, blows=60)


def gather_under_kills(stage: Stage, fleet: Fleet, *, batches: int, blows: int) -> None:
    random = Random(3)
    squad = [fleet.worker(**SEATS) for _ in range(2)]
    fleet.await_workers(*squad)
    made: list[Run] = []
    for blow in range(blows):
        made += [
            stage.app.enqueue("gathering", {"units": {"range": [0, 8, 1]}, "fails": n % 3 == 0})
            for n in range(batches // blows)
        ]
        rest(random.uniform(0.05, 0.4))
        squad[blow % 2].kill()
        squad[blow % 2] = fleet.worker(**SEATS)
    eventually(lambda: all_ended(stage, made), within=60, what="every batch has ended")
    ended = [run.refresh() for run in made]
    failed = {run.id for run in ended if run.input["fails"]}
    assert {run.id for run in ended if run.status is Status.FAILED} == failed
    for job, wanted in (("grieved", failed), ("gathered", {run.id for run in made} - failed)):
        told = results_of(stage, job, len(wanted))
        assert sorted(told) == sorted(wanted)
    stage.check(acked=[run.id for run in made], witnessed=False)


def results_of(stage: Stage, job: str, count: int) -> list[str]:
    """What the runs of a job returned, once so many have ended."""

    def ended() -> bool:
        runs = stage.app.list(job=job, limit=1000)
        return len(runs) >= count and all(run.finished_at is not None for run in runs)

    eventually(ended, within=60, what=f"{count} runs of {job} have ended")
    return [str(run.raw_result) for run in stage.app.list(job=job, limit=1000)]


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
