"""A rule machine: random lives of a few runs, the store and the model side by side.

After each step the store must have answered as the model does, show each run as the model has
it, and pass the history checker.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conformance.history import History, violations
from tests.conformance.kit import LEASE, Driver, ids, make_finish, raw, ref, requires
from tests.conformance.model import PARKED, Model, ModelRun
from windlass.domain.outcome import Outcome
from windlass.domain.run import Held, NewRun
from windlass.domain.states import Intent, Status, Verb, advance
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.errors import IllegalTransition, KeyConflict, RunExpires

WORKERS = st.sampled_from(["w1", "w2"])
KEYS = st.sampled_from([None, None, "k1", "k2"])
INPUTS = st.sampled_from([{"n": 1}, {"n": 2}])
SECONDS = st.sampled_from([0.0, 1.0, 10.0, LEASE, 100.0])
LATER = st.sampled_from([None, 0.0, 5.0, 50.0])
WHEN = ("at", "delay")
TIMES = ("expires_at", "deadline_at")
SIGNALS = st.sampled_from(["go", "stop"])
WAITS = st.sampled_from([("go",), ("stop",), ("go", "stop"), ("nap", "go"), ("nap",)])
ENDLESS = (Outcome.SLEEPING, Outcome.WAITING)
PICK = st.integers(min_value=0, max_value=1_000)
MAX_CRASHES = 2
FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
# Time for a failure to be made small; a success takes seconds.
PATIENT = pytest.mark.timeout(900)


class Lives(RuleBasedStateMachine):
    """Random calls of a store, mirrored by a model."""

    def __init__(self, drive: Driver) -> None:
        super().__init__()
        self.drive = drive
        self.model = Model()
        self.claims = 0

    @initialize()
    def start_empty(self) -> None:
        self.drive.tables.empty()

    # -- enqueue ----------------------------------------------------------------------------

    @rule(
        key=KEYS,
        document=INPUTS,
        delay=LATER,
        ttl=LATER,
        expires=LATER,
        deadline=LATER,
        priority=st.integers(0, 2),
    )
    def enqueue(
        self,
        key: str | None,
        document: dict[str, int],
        delay: float | None,
        ttl: float | None,
        expires: float | None,
        deadline: float | None,
        priority: int,
    ) -> None:
        run = self.drive.new(
            key=key, input=raw(document), delay=delay, key_ttl=ttl if key else None,
            expires_in=expires, deadline_in=deadline, priority=priority,
        )  # fmt: skip
        owner = self.model.owner(key, self.drive.now) if key else None
        if owner is not None and owner[1] != document:
            with pytest.raises(KeyConflict):
                self.drive.enqueue(run)
            return
        (answer,) = self.drive.enqueue(run)
        assert (answer.id, answer.created) == ((owner[0], False) if owner else (run.id, True))
        if owner is None:
            self._add(run, document)

    @rule(delays=st.lists(LATER, min_size=2, max_size=4), key=KEYS)
    def enqueue_together(self, delays: list[float | None], key: str | None) -> None:
        runs = [self.drive.new(delay=delay) for delay in delays]
        runs[0] = self.drive.new(key=key, delay=delays[0])
        owner = self.model.owner(key, self.drive.now) if key else None
        if owner is not None and owner[1] != {"n": 1}:
            with pytest.raises(KeyConflict):
                self.drive.enqueue(*runs)
            return
        answers = self.drive.enqueue(*runs)
        assert [answer.created for answer in answers] == [owner is None] + [True] * len(runs[1:])
        for run in runs if owner is None else runs[1:]:
            self._add(run, {"n": 1})

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def enqueue_again(self, pick: int) -> None:
        known = self._pick(pick)
        (answer,) = self.drive.enqueue(self.drive.new(id=known.id))
        assert (answer.id, answer.created) == (known.id, False)

    # -- workers ----------------------------------------------------------------------------

    @rule(worker=WORKERS)
    def register(self, worker: str) -> None:
        self.drive.register(worker)
        self.model.workers[worker] = self.drive.later(LEASE)

    @rule(worker=WORKERS, limit=st.integers(1, 3))
    def claim(self, worker: str, limit: int) -> None:
        self.claims += 1
        reply = self.drive.claim(limit, worker=worker, claim_no=self.claims)
        assert reply.refused is not self.model.alive(worker, self.drive.now)
        taken = [] if reply.refused else self._claimed(worker, limit)
        assert [(run.id, run.token, run.attempt) for run in reply.claimed] == [
            (run.id, run.token, run.attempt) for run in taken
        ]

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, outcome=st.sampled_from(Outcome), delay=LATER, waits=WAITS)
    def finish(
        self, pick: int, outcome: Outcome, delay: float | None, waits: tuple[str, ...]
    ) -> None:
        run = self._pick(pick)
        self._finish(run, run.token, outcome, delay, waits)

    @precondition(lambda self: self._running())
    @rule(pick=PICK, delay=LATER, waits=WAITS)
    def park(self, pick: int, delay: float | None, waits: tuple[str, ...]) -> None:
        """What a run does that waits: it looks for what it waits for, and gives its lease up."""
        running = self._running()
        run = running[pick % len(running)]
        for name in set(waits) & {"go", "stop"}:
            self._record(run, run.token, _wait_for(name, delay))
        self._finish(run, run.token, Outcome.WAITING, delay, waits)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, name=SIGNALS, wait=LATER, shift=st.sampled_from([0, 0, 0, 1]))
    def look_for_a_signal(self, pick: int, name: str, wait: float | None, shift: int) -> None:
        run = self._pick(pick)
        self._record(run, run.token + shift, _wait_for(name, wait))

    @precondition(lambda self: self._running())
    @rule(
        pick=PICK,
        path=st.sampled_from(["a", "b"]),
        state=st.sampled_from([StepState.DONE, StepState.FAILED, StepState.RETRYING]),
    )
    def record_a_step(self, pick: int, path: str, state: StepState) -> None:
        running = self._running()
        run = running[pick % len(running)]
        wait = 5.0 if state is StepState.RETRYING else None
        self._record(
            run, run.token, StepWrite(path=path, kind=StepKind.STEP, state=state, wait=wait)
        )

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, name=SIGNALS, key=st.sampled_from([None, None, "k"]))
    def signal(self, pick: int, name: str, key: str | None) -> None:
        run, call = self._pick(pick), self.drive.ops.signal
        try:
            advance(run.status, Verb.SIGNAL)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                self.drive.call(call(ref(run.id), name, raw(1), key))
            return
        sent = self.drive.call(call(ref(run.id), name, raw(len(run.signals)), key))
        assert (sent.number, sent.created) == self.model.signal(run, name, key, self.drive.now)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, outcome=st.sampled_from(Outcome), shift=st.sampled_from([-1, 1]))
    def finish_with_another_token(self, pick: int, outcome: Outcome, shift: int) -> None:
        run = self._pick(pick)
        self._finish(run, run.token + shift, outcome, None)

    @precondition(lambda self: self.model.runs)
    @rule(worker=WORKERS, outcome=st.sampled_from(Outcome))
    def finish_all_and_claim(self, worker: str, outcome: Outcome) -> None:
        held = self.model.held_by(worker)
        now = self.drive.now
        fields = {"waits": ("go",), "until": None} if outcome in ENDLESS else {"delay": None}
        ends = [make_finish(_held(run), outcome, **fields) for run in held]
        self.claims += 1
        reply = self.drive.claim(2, worker=worker, claim_no=self.claims, finishes=ends)
        assert reply.lost == ()
        for run in held:
            assert self.model.finish(run.id, run.token, outcome, None, now, ("go",))
        assert reply.refused is not self.model.alive(worker, now)
        taken = [] if reply.refused else self._claimed(worker, 2)
        assert ids(reply.claimed) == [run.id for run in taken]

    @rule(worker=WORKERS, forget=st.booleans())
    def renew(self, worker: str, forget: bool) -> None:
        held = self.model.held_by(worker)
        named = held[::2] if forget else held
        settled = self.claims - 1
        reply = self.drive.renew([_held(run) for run in named], worker=worker, settled=settled)
        assert reply.alive is (worker in self.model.workers)
        if not reply.alive:
            return
        self.model.workers[worker] = self.drive.later(LEASE)
        unheard = [run for run in held if run not in named and run.claim_no <= settled]
        assert reply.released == self.model.give_back(unheard, self.drive.now)
        assert reply.lost == ()
        wanted = {run.id for run in self.model.held_by(worker) if run.intent is Intent.CANCEL}
        assert {order.id for order in reply.orders} == wanted

    @rule(worker=WORKERS)
    def retire(self, worker: str) -> None:
        released = self.drive.call(self.drive.ops.retire(worker))
        assert released == self.model.give_back(self.model.held_by(worker), self.drive.now)
        self.model.workers.pop(worker, None)

    # -- control and services -----------------------------------------------------------------

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        run = self._pick(pick)
        if run.status is Status.CANCELED:
            assert self.drive.cancel(ref(run.id)).status is Status.CANCELED
            return
        try:
            expected = advance(run.status, Verb.CANCEL)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                self.drive.cancel(ref(run.id))
            return
        assert self.drive.cancel(ref(run.id)).status is expected
        if run.status is not Status.RUNNING:
            run.move(Verb.CANCEL)
        elif run.intent is not Intent.CANCEL:
            run.intent = Intent.CANCEL
            run.seq += 1

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def pause(self, pick: int) -> None:
        run = self._pick(pick)
        if run.status.finished:
            with pytest.raises(IllegalTransition):
                self.drive.pause(ref(run.id))
            return
        self.drive.pause(ref(run.id))
        if run.status is Status.RUNNING:
            run.seq += run.intent is None
            run.intent = run.intent or Intent.PAUSE
        elif run.status is not Status.PAUSED:
            self.model.pause(run)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def resume(self, pick: int) -> None:
        run = self._pick(pick)
        if run.status.finished:
            with pytest.raises(IllegalTransition):
                self.drive.resume(ref(run.id))
            return
        self.drive.resume(ref(run.id))
        if run.intent is Intent.PAUSE:
            run.seq += 1
            run.intent = None
        elif run.status is Status.PAUSED:
            self.model.resume(run, self.drive.now)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def terminate(self, pick: int) -> None:
        run = self._pick(pick)
        if run.status in (Status.SUCCEEDED, Status.FAILED):
            with pytest.raises(IllegalTransition):
                self.drive.terminate(ref(run.id))
            return
        assert self.drive.terminate(ref(run.id)).status is Status.CANCELED
        if run.status is not Status.CANCELED:
            run.move(Verb.TERMINATE)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def restart(self, pick: int) -> None:
        run = self._pick(pick)
        try:
            advance(run.status, Verb.RESTART)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                self.drive.restart(ref(run.id))
            return
        assert self.drive.restart(ref(run.id)).status is Status.QUEUED
        self.model.restart(run, self.drive.now)
        self._compare_steps(run)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def retry(self, pick: int) -> None:
        run = self._pick(pick)
        try:
            advance(run.status, Verb.RETRY)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                self.drive.retry(ref(run.id))
            return
        assert self.drive.retry(ref(run.id)).status is Status.QUEUED
        self.model.retry(run, self.drive.now)
        self._compare_steps(run)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, seconds=st.sampled_from([-10.0, 0.0, 5.0, 50.0]), by=st.sampled_from(WHEN))
    def reschedule(self, pick: int, seconds: float, by: str) -> None:
        run, due = self._pick(pick), self.drive.later(seconds)
        if by == "delay":
            due = max(due, self.drive.now)
        when = {"delay": max(seconds, 0.0)} if by == "delay" else {"at": due}
        try:
            advance(run.status, Verb.RESCHEDULE)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                self.drive.reschedule(ref(run.id), **when)
            return
        late = run.late(max(due, self.drive.now)) is not None
        if late and not run.status.finished:
            with pytest.raises(RunExpires):
                self.drive.reschedule(ref(run.id), **when)
            return
        record = self.drive.reschedule(ref(run.id), **when)
        assert record.status is self.model.reschedule(run, due, self.drive.now)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, priority=st.integers(0, 2))
    def reprioritize(self, pick: int, priority: int) -> None:
        run = self._pick(pick)
        try:
            advance(run.status, Verb.REPRIORITIZE)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                self.drive.reprioritize(ref(run.id), priority=priority)
            return
        record = self.drive.reprioritize(ref(run.id), priority=priority)
        assert record.status is run.move(Verb.REPRIORITIZE)
        run.priority = priority

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, seconds=st.sampled_from([None, 5.0, 50.0]), which=st.sampled_from(TIMES))
    def change(self, pick: int, seconds: float | None, which: str) -> None:
        """Another expiry or deadline; None: there is to be none."""
        run, now = self._pick(pick), self.drive.now
        over = None if seconds is None else self.drive.later(seconds)
        try:
            advance(run.status, Verb.CHANGE)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                self.drive.change(ref(run.id), **{which: over})
            return
        at_any_time = run.status in (Status.QUEUED, Status.WAITING, Status.PAUSED)
        # What sleeps without an end is never due.
        start = now if at_any_time else max(run.due_at or FOREVER, now)
        if over is not None and over <= start:
            with pytest.raises(RunExpires):
                self.drive.change(ref(run.id), **{which: over})
            return
        record = self.drive.change(ref(run.id), **{which: over})
        assert record.status is run.move(Verb.CHANGE)
        setattr(run, which, over)
        run.may_expire = run.may_expire or which == "expires_at"

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.drive.advance(seconds)

    @rule(dispatch=st.booleans(), expire=st.booleans(), reap=st.booleans())
    def sweep(self, dispatch: bool, expire: bool, reap: bool) -> None:
        reply = self.drive.sweep(
            dispatch=dispatch, expire=expire, reap=reap, max_crashes=MAX_CRASHES
        )
        now = self.drive.now
        assert reply.expired == (self.model.expire(now) if expire else 0)
        assert reply.overrun == (self.model.overrun(LEASE, now) if expire else 0)
        assert set(ids(reply.dispatched)) == (self.model.dispatch(now) if dispatch else set())
        reaped = self.model.reap(MAX_CRASHES, now) if reap else (0, 0)
        assert (reply.reaped, reply.crashed) == reaped

    # -- what must always be true -----------------------------------------------------------------

    @invariant()
    def the_store_shows_what_the_model_has(self) -> None:
        shown = self.drive.call(self.drive.ops.get_runs("default", list(self.model.runs)))
        history = History.read(self.drive.tables)
        seqs = {row["subject"]: row["seq"] for row in history.events}  # the last one stands
        assert [_view(seqs[record.id], record) for record in shown] == [
            _view(run.seq, run) for _, run in sorted(self.model.runs.items(), reverse=True)
        ]
        assert violations(history) == []

    # -- helpers ------------------------------------------------------------------------------

    def _pick(self, number: int) -> ModelRun:
        known = list(self.model.runs.values())
        return known[number % len(known)]

    def _add(self, run: NewRun, document: object) -> None:
        now = self.drive.now
        due = self.drive.later(run.delay) if run.delay else None
        self.model.runs[run.id] = ModelRun(
            id=run.id,
            priority=run.priority,
            status=Status.QUEUED if due is None else Status.SCHEDULED,
            ready_at=now,
            scheduled_for=now if due is None else due,
            due_at=due,
            expires_at=None if run.expires_in is None else self.drive.later(run.expires_in),
            deadline_at=None if run.deadline_in is None else self.drive.later(run.deadline_in),
        )
        if run.key is not None:
            until = None if run.key_ttl is None else self.drive.later(run.key_ttl)
            self.model.keys[run.key] = (run.id, document, until)

    def _claimed(self, worker: str, limit: int) -> list[ModelRun]:
        return list(self.model.claim(worker, self.claims, limit, self.drive.now))

    def _running(self) -> list[ModelRun]:
        return [run for run in self.model.runs.values() if run.status is Status.RUNNING]

    def _record(self, run: ModelRun, token: int, write: StepWrite) -> None:
        held = Held("default", run.id, token)
        answer = self.drive.call(self.drive.ops.record_steps(held, [write]))
        if run.status is not Status.RUNNING or token != run.token:
            assert answer is None
            return
        assert answer is not None
        expected = self.model.record(run, write, self.drive.now)
        assert [(step.state, step.until) for step in answer] == [(expected.state, expected.until)]
        self._compare_steps(run)

    def _compare_steps(self, run: ModelRun) -> None:
        kept = self.drive.call(self.drive.ops.list_generations("default", run.id, 0, 100))
        assert [one.number for one in kept] == list(range(1, run.generations + 1))
        found = self.drive.call(self.drive.ops.list_steps("default", run.id, None, 10))
        assert {step.path: (step.state, step.until) for step in found} == {
            path: (step.state, step.until) for path, step in run.steps.items()
        }

    def _finish(
        self,
        run: ModelRun,
        token: int,
        outcome: Outcome,
        delay: float | None,
        waits: tuple[str, ...] = (),
    ) -> None:
        fields: dict[str, Any] = {"counts": outcome in (Outcome.RETRY, Outcome.FAILED)}
        if outcome in (Outcome.RETRY, Outcome.SNOOZED):
            fields["delay"] = delay
        until = None if delay is None else self.drive.later(delay)
        if outcome in ENDLESS:
            fields |= {"waits": waits, "until": until}
        reply = self.drive.finish(Held("default", run.id, token), outcome, **fields)
        held = self.model.finish(
            run.id, token, outcome, until, self.drive.now, waits if outcome in ENDLESS else ()
        )
        assert reply.lost == (() if held else (Held("default", run.id, token),))


def _wait_for(name: str, wait: float | None) -> StepWrite:
    return StepWrite(
        path=name, kind=StepKind.SIGNAL, state=StepState.WAITING, signal=name, wait=wait
    )


def _held(run: ModelRun) -> Held:
    return Held("default", run.id, run.token)


def _view(seq: int, run: Any) -> tuple[object, ...]:
    counts = (run.attempt, run.failures, run.crash_count, run.token)
    due = run.due_at if run.status in PARKED else None
    wishes = (run.intent, run.scheduled_for, run.expires_at, run.deadline_at)
    return (run.id, run.status, run.priority, counts, seq, wishes, run.failure, due, run.waits)


def _live(steer: Driver, *, examples: int, steps: int) -> None:
    class OnThisStore(Lives):
        def __init__(self) -> None:
            super().__init__(steer)

    steer.store.migrate()  # the tables are emptied before the first call
    run_state_machine_as_test(
        OnThisStore,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@PATIENT
def test_the_store_behaves_as_the_model_does(steer: Driver) -> None:
    _live(steer, examples=20, steps=30)


@PATIENT
@requires("in_process")
def test_the_store_behaves_as_the_model_does_in_longer_lives(steer: Driver) -> None:
    _live(steer, examples=15, steps=50)


@PATIENT
@pytest.mark.long
def test_the_store_behaves_as_the_model_does_in_many_lives(steer: Driver) -> None:
    _live(steer, examples=1_000, steps=60)
