"""What an application does with runs, each verb written once, as a flow.

``faces.py`` has the two faces of each, and is generated from this file (``tools/make_faces.py``).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack, overload

import msgspec

from windlass import codec
from windlass.acting import actor
from windlass.client.announce import publish_moved
from windlass.client.batches import BatchVerbs
from windlass.client.changing import ChangeOptions, ask_again, check_changes, check_input
from windlass.client.enqueue import enqueue
from windlass.client.filters import (
    ListOptions,
    check_budget,
    check_filters,
    check_id,
    check_place,
    check_prefix,
    check_reason,
    make_filter,
)
from windlass.client.paging import whole_page
from windlass.client.requests import UsingOptions, check_time
from windlass.client.run import Run
from windlass.client.typed import R
from windlass.client.waiting import Patience, wait_for_all
from windlass.domain.job import check_key, check_text
from windlass.domain.run import RunRecord
from windlass.domain.states import Status
from windlass.domain.step import LONGEST_PATH, Signal, check_step_name
from windlass.duration import Duration
from windlass.errors import AmbiguousRun, RunFailed, RunNotFound
from windlass.store.flow import Flow, Hint, Pause
from windlass.store.operations import Call

_EVENTS = 1000  # at once


class RunVerbs(BatchVerbs):
    """Look, wait, signal, cancel, pause, resume, terminate, retry, run again, and more."""

    def get(self, run: str) -> Flow[Run]:
        """Read a run; raises RunNotFound."""
        return Run(self._scope, (yield from self._record(run)))

    def full_id(self, prefix: str) -> Flow[str]:
        """The id of the one run whose id begins like this: eight digits or more of it.

        Raises RunNotFound, and AmbiguousRun where several do. For what people type: programs keep
        whole ids.
        """
        first, last = check_prefix(prefix)
        tenant = self._scope.tenant
        found = yield self._operations.ids_between(tenant, first, last, AmbiguousRun.most + 1)
        if not found:
            raise RunNotFound(prefix)
        if len(found) > 1:
            raise AmbiguousRun(prefix, *found)
        return str(found[0])

    def list(self, **query: Unpack[ListOptions]) -> Flow[Sequence[Run]]:
        """A page of runs, newest first, by status (one or several), job, queue, tag, key, schedule,
        worker, failure, error (the type), created_from, created_to, finished_from, finished_to,
        dead; `limit` of them; the next page: before=the last one's id."""
        asked = yield from make_filter(self._scope, check_filters(query))
        page = yield from whole_page(self._scope.store, asked)
        return [Run(self._scope, record) for record in page]

    def cancel(self, run: str, *, reason: str | None = None) -> Flow[Run]:
        """Cancel a run: end it if it has not started, or ask it to end if it is running."""
        record = yield self._operations.cancel(self._ref(run), check_reason(reason), by=actor())
        found = Run(self._scope, record)
        if found.cancel_requested:
            yield Hint()  # so that its worker asks for orders now
        return found

    def pause(self, run: str, *, reason: str | None = None) -> Flow[Run]:
        """Stop a run for now. It keeps its place, its steps and its time.

        One that runs stops at its next step, wait or `ctx.checkpoint()`; until then
        `run.pause_requested` is true. A handler without any of these runs to its end. Repeating
        it is harmless. Raises IllegalTransition for a run that has ended.
        """
        record = yield self._operations.pause(self._ref(run), check_reason(reason), by=actor())
        found = Run(self._scope, record)
        if found.pause_requested or found.status is Status.PAUSED:
            yield Hint()  # so that its worker asks for orders now; of a batch, it has shards
        return found

    def resume(self, run: str) -> Flow[Run]:
        """Let a paused run go on where it was; take the request to pause a running one back.

        Any other run that has not ended stays as it is. Raises IllegalTransition for one that has.
        """
        return (yield from self._moved(self._operations.resume(self._ref(run), by=actor())))

    def terminate(self, run: str, *, reason: str | None = None) -> Flow[Run]:
        """End a run now, as canceled. Use `cancel` unless its handler does not react.

        A running one loses its lease: its handler is interrupted, and nothing that it still does,
        not even its clean-up, can be recorded. Its children are canceled, and the shards of a
        batch terminated. Raises IllegalTransition for a run that succeeded or failed.
        """
        record = yield self._operations.terminate(self._ref(run), check_reason(reason), by=actor())
        yield Hint()  # so that its worker hears of it now
        return Run(self._scope, record)

    def retry(
        self,
        run: str,
        *,
        max_attempts: int | None = None,
        input: Mapping[str, Any] | None = None,
    ) -> Flow[Run]:
        """Reopen a failed, canceled or stale run, with a fresh budget of attempts.

        With `input`, the arguments by name, it starts with that instead of its own. Its key, if it
        has one, still stands for the input that it was enqueued with.
        """
        budget, edited = check_budget(max_attempts), None
        if input is not None:
            edited = yield from check_input(self._scope, (yield from self._record(run)), input)
        call = self._operations.retry(self._ref(run), budget, edited, by=actor())
        return (yield from self._moved(call))

    def restart(self, run: str, *, step: str | None = None) -> Flow[Run]:
        """Let a run begin anew, with its input and a fresh budget of attempts.

        Without `step` all of its durable steps are forgotten. With one (its path, as `run.steps()`
        has it, or the name of a phase), that step and what was recorded after it is; what came
        before stays done. Children of forgotten steps are canceled if they live. Raises
        IllegalTransition for a run that is running or has succeeded, and StepNotRecorded.
        """
        named = None if step is None else check_text("step", step, LONGEST_PATH)
        call = self._operations.restart(self._ref(run), named, by=actor())
        return (yield from self._moved(call))

    def run_again(
        self,
        run: str,
        *,
        input: Mapping[str, Any] | None = None,
        **options: Unpack[UsingOptions],
    ) -> Flow[Run]:
        """Enqueue a new run like one that has ended, with its input or with another one.

        It has the same job, queue, priority, tags, metadata, trace, timeout and max_attempts,
        unless you give others: the options are those of `using`. It has a key only if you give
        one. `again_of` is the id of the old run, which stays as it is. Raises IllegalTransition
        for a run that has not ended.
        """
        record = yield from self._record(run)
        request = yield from ask_again(self._scope, record, input, options)
        runs = yield from enqueue(self._scope, [request])
        return runs[0]

    def reschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Flow[Run]:
        """Move a run that has not started to another time; reopen one that ended, for that time.

        `at` is a datetime with a zone, `delay` a duration from now; what has come already is ready
        at once. Raises IllegalTransition for a run that is running or has succeeded, and RunExpires
        for one that would have expired, or met its deadline, by then.
        """
        call = self._operations.reschedule(self._ref(run), **check_time(at, delay), by=actor())
        return (yield from self._moved(call))

    def reprioritize(
        self, run: str, *, priority: int | None = None, queue: str | None = None
    ) -> Flow[Run]:
        """Give a run that has not started another priority, another queue, or both.

        It keeps its time: in its new place it comes before what became ready after it. Raises
        IllegalTransition for a run that is running or has ended.
        """
        place = check_place(priority, queue)
        call = self._operations.reprioritize(self._ref(run), **place, by=actor())
        return (yield from self._moved(call))

    def change(self, run: str, **changes: Unpack[ChangeOptions]) -> Flow[Run]:
        """Give a run that waits another input, other tags, another timeout, expiry or deadline.

        `input` is all of the arguments by name, checked as by an enqueue. None takes expiry and
        deadline away, and leaves the timeout to the job. The run keeps its place and its time; its
        key, if it has one, still stands for the input that it was enqueued with. Raises
        IllegalTransition for a run that is running or has ended, and RunExpires where it could not
        start before the new expiry or deadline.
        """
        wanted = check_changes(changes)
        if "input" in changes:
            record = yield from self._record(run)
            edited = yield from check_input(self._scope, record, changes["input"])
            wanted = msgspec.structs.replace(wanted, input=edited)
        call = self._operations.change(self._ref(run), wanted, by=actor())
        return (yield from self._moved(call))

    def signal(
        self, run: str, name: str, payload: object = None, *, key: str | None = None
    ) -> Flow[Signal]:
        """Send a signal to a run that waits for it, or will: see `ctx.wait_for`.

        `payload` is anything that JSON has. Signals of a name are taken in the order in which they
        came, one by each wait. Of several with the same `key` only the first counts, and is
        returned. Raises IllegalTransition for a run that has ended.
        """
        named = check_step_name(name, "signal")
        data = codec.encode(payload, what=f"payload of signal {named!r}")
        known = None if key is None else check_key(key)
        sent: Signal = yield self._operations.signal(
            self._ref(run), named, msgspec.Raw(data), known, by=actor()
        )
        if sent.created:
            yield Hint()  # a run that waited for it is ready
        return sent

    def discard(self, *runs: str) -> Flow[int]:
        """Take failed runs off the dead letters for good; returns how many were on them."""
        ids = [check_id(run) for run in runs]
        discarded: int = yield self._operations.discard(self._scope.tenant, ids, by=actor())
        return discarded

    def wait(self, run: str, *, timeout: Duration | None = None) -> Flow[Run]:
        """Wait until a run has ended, whatever the outcome. Raises ResultTimeout."""
        patience = Patience(timeout, self._scope.sources)
        while True:
            if (yield self._operations.has_ended(self._ref(run))) is not False:
                found = yield from self.get(run)
                if found.status.finished:  # and was not reopened meanwhile
                    return found
            yield Pause(patience.pause(run))

    @overload
    def wait_all(
        self, runs: Iterable[Run[R]], *, timeout: Duration | None = None
    ) -> Flow[Sequence[Run[R]]]: ...
    @overload
    def wait_all(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Flow[Sequence[Run[Any]]]: ...

    def wait_all(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Flow[Sequence[Run[Any]]]:
        """Wait until all runs have ended, whatever the outcome; returns them in the order given.

        One look at the store is for all of them. Raises RunNotFound, which names those that do not
        exist, and ResultTimeout.
        """
        return (yield from wait_for_all(self._scope, runs, timeout))

    @overload
    def result(self, run: Run[R], *, timeout: Duration | None = None) -> Flow[R]: ...
    @overload
    def result(self, run: str, *, timeout: Duration | None = None) -> Flow[Any]: ...

    def result(self, run: Run[Any] | str, *, timeout: Duration | None = None) -> Flow[Any]:
        """Wait for a run's result. Raises RunFailed if there is none, and ResultTimeout.

        Given a run, the result has the type that the job returns; given an id, it is plain JSON.
        """
        if isinstance(run, Run):
            ended = run.become((yield from self.wait(run.id, timeout=timeout)).record)
        else:
            ended = yield from self.wait(run, timeout=timeout)
        if ended.status is Status.SUCCEEDED:
            return ended.result
        raise RunFailed(ended.id, ended.status, ended.failure, ended.error, ended.reason)

    def _moved(self, call: Call[RunRecord]) -> Flow[Run]:
        """Move a run, and notify whoever may take it."""
        record = yield call
        publish_moved(self._scope.transport, record)
        yield Hint()
        return Run(self._scope, record)
