"""The two faces of RunVerbs: generated from client/verbs.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, overload

from windlass.client.batch_faces import BatchFaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any, Unpack

    from windlass.client.changing import ChangeOptions
    from windlass.client.filters import (
        ListOptions,
    )
    from windlass.client.requests import UsingOptions
    from windlass.client.run import Run
    from windlass.client.typed import R
    from windlass.client.verbs import RunVerbs
    from windlass.domain.step import Signal
    from windlass.duration import Duration


class RunFaces(BatchFaces):
    """Every verb of RunVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> RunVerbs:
        """The flows."""
        ...

    def get(self, run: str) -> Run:
        """Read a run; raises RunNotFound."""
        verbs = self._verbs
        return verbs.perform(verbs.get(run))

    async def aget(self, run: str) -> Run:
        """As `get`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.get(run))

    def full_id(self, prefix: str) -> str:
        """The id of the one run whose id begins like this: eight digits or more of it.

        Raises RunNotFound, and AmbiguousRun where several do. For what people type: programs keep
        whole ids.
        """
        verbs = self._verbs
        return verbs.perform(verbs.full_id(prefix))

    async def afull_id(self, prefix: str) -> str:
        """As `full_id`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.full_id(prefix))

    def list(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """A page of runs, newest first, by status (one or several), job, queue, tag, key, schedule,
        worker, failure, error (the type), created_from, created_to, finished_from, finished_to,
        dead; `limit` of them; the next page: before=the last one's id."""
        verbs = self._verbs
        return verbs.perform(verbs.list(**query))

    async def alist(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """As `list`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.list(**query))

    def cancel(self, run: str, *, reason: str | None = None) -> Run:
        """Cancel a run: end it if it has not started, or ask it to end if it is running."""
        verbs = self._verbs
        return verbs.perform(verbs.cancel(run, reason=reason))

    async def acancel(self, run: str, *, reason: str | None = None) -> Run:
        """As `cancel`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.cancel(run, reason=reason))

    def pause(self, run: str, *, reason: str | None = None) -> Run:
        """Stop a run for now. It keeps its place, its steps and its time.

        One that runs stops at its next step, wait or `ctx.checkpoint()`; until then
        `run.pause_requested` is true. A handler without any of these runs to its end. Repeating
        it is harmless. Raises IllegalTransition for a run that has ended.
        """
        verbs = self._verbs
        return verbs.perform(verbs.pause(run, reason=reason))

    async def apause(self, run: str, *, reason: str | None = None) -> Run:
        """As `pause`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.pause(run, reason=reason))

    def resume(self, run: str) -> Run:
        """Let a paused run go on where it was; take the request to pause a running one back.

        Any other run that has not ended stays as it is. Raises IllegalTransition for one that has.
        """
        verbs = self._verbs
        return verbs.perform(verbs.resume(run))

    async def aresume(self, run: str) -> Run:
        """As `resume`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.resume(run))

    def terminate(self, run: str, *, reason: str | None = None) -> Run:
        """End a run now, as canceled. Use `cancel` unless its handler does not react.

        A running one loses its lease: its handler is interrupted, and nothing that it still does,
        not even its clean-up, can be recorded. Its children are canceled, and the shards of a
        batch terminated. Raises IllegalTransition for a run that succeeded or failed.
        """
        verbs = self._verbs
        return verbs.perform(verbs.terminate(run, reason=reason))

    async def aterminate(self, run: str, *, reason: str | None = None) -> Run:
        """As `terminate`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.terminate(run, reason=reason))

    def retry(
        self, run: str, *, max_attempts: int | None = None, input: Mapping[str, Any] | None = None
    ) -> Run:
        """Reopen a failed, canceled or stale run, with a fresh budget of attempts.

        With `input`, the arguments by name, it starts with that instead of its own. Its key, if it
        has one, still stands for the input that it was enqueued with.
        """
        verbs = self._verbs
        return verbs.perform(verbs.retry(run, max_attempts=max_attempts, input=input))

    async def aretry(
        self, run: str, *, max_attempts: int | None = None, input: Mapping[str, Any] | None = None
    ) -> Run:
        """As `retry`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.retry(run, max_attempts=max_attempts, input=input))

    def restart(self, run: str, *, step: str | None = None) -> Run:
        """Let a run begin anew, with its input and a fresh budget of attempts.

        Without `step` all of its durable steps are forgotten. With one (its path, as `run.steps()`
        has it, or the name of a phase), that step and what was recorded after it is; what came
        before stays done. Children of forgotten steps are canceled if they live. Raises
        IllegalTransition for a run that is running or has succeeded, and StepNotRecorded.
        """
        verbs = self._verbs
        return verbs.perform(verbs.restart(run, step=step))

    async def arestart(self, run: str, *, step: str | None = None) -> Run:
        """As `restart`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.restart(run, step=step))

    def run_again(
        self, run: str, *, input: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Run:
        """Enqueue a new run like one that has ended, with its input or with another one.

        It has the same job, queue, priority, tags, metadata, trace, timeout and max_attempts,
        unless you give others: the options are those of `using`. It has a key only if you give
        one. `again_of` is the id of the old run, which stays as it is. Raises IllegalTransition
        for a run that has not ended.
        """
        verbs = self._verbs
        return verbs.perform(verbs.run_again(run, input=input, **options))

    async def arun_again(
        self, run: str, *, input: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Run:
        """As `run_again`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.run_again(run, input=input, **options))

    def reschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """Move a run that has not started to another time; reopen one that ended, for that time.

        `at` is a datetime with a zone, `delay` a duration from now; what has come already is ready
        at once. Raises IllegalTransition for a run that is running or has succeeded, and RunExpires
        for one that would have expired, or met its deadline, by then.
        """
        verbs = self._verbs
        return verbs.perform(verbs.reschedule(run, at=at, delay=delay))

    async def areschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """As `reschedule`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reschedule(run, at=at, delay=delay))

    def reprioritize(
        self, run: str, *, priority: int | None = None, queue: str | None = None
    ) -> Run:
        """Give a run that has not started another priority, another queue, or both.

        It keeps its time: in its new place it comes before what became ready after it. Raises
        IllegalTransition for a run that is running or has ended.
        """
        verbs = self._verbs
        return verbs.perform(verbs.reprioritize(run, priority=priority, queue=queue))

    async def areprioritize(
        self, run: str, *, priority: int | None = None, queue: str | None = None
    ) -> Run:
        """As `reprioritize`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reprioritize(run, priority=priority, queue=queue))

    def change(self, run: str, **changes: Unpack[ChangeOptions]) -> Run:
        """Give a run that waits another input, other tags, another timeout, expiry or deadline.

        `input` is all of the arguments by name, checked as by an enqueue. None takes expiry and
        deadline away, and leaves the timeout to the job. The run keeps its place and its time; its
        key, if it has one, still stands for the input that it was enqueued with. Raises
        IllegalTransition for a run that is running or has ended, and RunExpires where it could not
        start before the new expiry or deadline.
        """
        verbs = self._verbs
        return verbs.perform(verbs.change(run, **changes))

    async def achange(self, run: str, **changes: Unpack[ChangeOptions]) -> Run:
        """As `change`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.change(run, **changes))

    def signal(
        self, run: str, name: str, payload: object = None, *, key: str | None = None
    ) -> Signal:
        """Send a signal to a run that waits for it, or will: see `ctx.wait_for`.

        `payload` is anything that JSON has. Signals of a name are taken in the order in which they
        came, one by each wait. Of several with the same `key` only the first counts, and is
        returned. Raises IllegalTransition for a run that has ended.
        """
        verbs = self._verbs
        return verbs.perform(verbs.signal(run, name, payload, key=key))

    async def asignal(
        self, run: str, name: str, payload: object = None, *, key: str | None = None
    ) -> Signal:
        """As `signal`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.signal(run, name, payload, key=key))

    def discard(self, *runs: str) -> int:
        """Take failed runs off the dead letters for good; returns how many were on them."""
        verbs = self._verbs
        return verbs.perform(verbs.discard(*runs))

    async def adiscard(self, *runs: str) -> int:
        """As `discard`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.discard(*runs))

    def wait(self, run: str, *, timeout: Duration | None = None) -> Run:
        """Wait until a run has ended, whatever the outcome. Raises ResultTimeout."""
        verbs = self._verbs
        return verbs.perform(verbs.wait(run, timeout=timeout))

    async def await_end(self, run: str, *, timeout: Duration | None = None) -> Run:
        """As `wait`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.wait(run, timeout=timeout))

    @overload
    def wait_all(
        self, runs: Iterable[Run[R]], *, timeout: Duration | None = None
    ) -> Sequence[Run[R]]: ...
    @overload
    def wait_all(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Sequence[Run[Any]]: ...
    def wait_all(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Sequence[Run[Any]]:
        """Wait until all runs have ended, whatever the outcome; returns them in the order given.

        One look at the store is for all of them. Raises RunNotFound, which names those that do not
        exist, and ResultTimeout.
        """
        verbs = self._verbs
        return verbs.perform(verbs.wait_all(runs, timeout=timeout))

    @overload
    async def await_all(
        self, runs: Iterable[Run[R]], *, timeout: Duration | None = None
    ) -> Sequence[Run[R]]: ...
    @overload
    async def await_all(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Sequence[Run[Any]]: ...
    async def await_all(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Sequence[Run[Any]]:
        """As `wait_all`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.wait_all(runs, timeout=timeout))

    @overload
    def result(self, run: Run[R], *, timeout: Duration | None = None) -> R: ...
    @overload
    def result(self, run: str, *, timeout: Duration | None = None) -> Any: ...
    def result(self, run: Run[Any] | str, *, timeout: Duration | None = None) -> Any:
        """Wait for a run's result. Raises RunFailed if there is none, and ResultTimeout.

        Given a run, the result has the type that the job returns; given an id, it is plain JSON.
        """
        verbs = self._verbs
        return verbs.perform(verbs.result(run, timeout=timeout))

    @overload
    async def aresult(self, run: Run[R], *, timeout: Duration | None = None) -> R: ...
    @overload
    async def aresult(self, run: str, *, timeout: Duration | None = None) -> Any: ...
    async def aresult(self, run: Run[Any] | str, *, timeout: Duration | None = None) -> Any:
        """As `result`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.result(run, timeout=timeout))
