"""Runs that filters select: to go through one by one, to count, and to act on all of them.

`client/bulk.py` says how a verb is applied to many runs. `selection_faces.py` has the two faces of
each verb, and is generated from this file.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack

import msgspec

from windlass.client.bulk import BulkResult, apply_to_all, count_all, try_on_all
from windlass.client.changing import RunChanges, check_changes
from windlass.client.filters import (
    check_budget,
    check_filters,
    check_place,
    check_reason,
    make_filter,
)
from windlass.client.paging import Batch, Stream
from windlass.client.requests import check_time
from windlass.client.run import Run
from windlass.client.scope import Scope, Verbs
from windlass.client.selection_faces import SelectionFaces
from windlass.domain.bulk import BULK_VERBS
from windlass.domain.job import check_text
from windlass.domain.listing import RunFilter, RunPage
from windlass.domain.step import LONGEST_PATH
from windlass.duration import Duration
from windlass.errors import UsageError
from windlass.store.flow import Flow

_PAGE = 100  # each run may carry the tracebacks of all its attempts


class Selection(Stream[Run[Any], Mapping[str, Any] | RunFilter], SelectionFaces):
    """The runs that fit some filters, newest first: `for run in selection`, or `async for`.

    Nothing is read until it is used, and each use reads anew, page by page. The verbs change all of
    them, in transactions of at most fifty runs; with `dry_run=True` they only count.
    """

    def __init__(self, scope: Scope, query: Mapping[str, Any], *, everything: bool = False) -> None:
        """`everything`: the verbs may be used without any filter. Raises BadOption."""
        super().__init__(scope)
        self._given = check_filters(query)
        self._everything = everything

    @property
    def _verbs(self) -> "SelectionVerbs":
        return SelectionVerbs(self._scope, self._given, self._everything)

    def _first(self) -> Mapping[str, Any]:
        return self._given

    def _batch(
        self, place: Mapping[str, Any] | RunFilter
    ) -> Flow[Batch[Run[Any], Mapping[str, Any] | RunFilter]]:
        if not isinstance(place, RunFilter):
            place = yield from make_filter(self._scope, place)
        asked = msgspec.structs.replace(place, limit=_PAGE)
        page: RunPage = yield self._scope.store.operations.list_runs(asked)
        runs = [Run(self._scope, record) for record in page]
        if page.next is None:
            return Batch(runs, None)
        return Batch(runs, msgspec.structs.replace(asked, before=page.next))


class SelectionVerbs(Verbs):
    """What can be done to all runs of a selection, as flows."""

    __slots__ = ("_everything", "_given")

    def __init__(self, scope: Scope, given: Mapping[str, Any], everything: bool) -> None:
        super().__init__(scope)
        self._given = given
        self._everything = everything

    def count(self) -> Flow[int]:
        """How many there are: counted one by one; `app.counts()` is cheaper where it will do."""
        return (yield from count_all(self._scope, (yield from self._filter())))

    def cancel(self, *, reason: str | None = None, dry_run: bool = False) -> Flow[BulkResult]:
        """End those that have not started; ask for the end of those that are running."""
        return (yield from self._apply("cancel", {"reason": check_reason(reason)}, dry_run))

    def pause(self, *, reason: str | None = None, dry_run: bool = False) -> Flow[BulkResult]:
        """Stop those that have not ended for now; ask running ones to stop at their next step."""
        return (yield from self._apply("pause", {"reason": check_reason(reason)}, dry_run))

    def resume(self, *, dry_run: bool = False) -> Flow[BulkResult]:
        """Let those that are paused, or were asked to pause, go on."""
        return (yield from self._apply("resume", {}, dry_run))

    def terminate(self, *, reason: str | None = None, dry_run: bool = False) -> Flow[BulkResult]:
        """End those that have not ended now; running ones lose their leases."""
        return (yield from self._apply("terminate", {"reason": check_reason(reason)}, dry_run))

    def restart(self, *, step: str | None = None, dry_run: bool = False) -> Flow[BulkResult]:
        """Let those that failed begin anew, from their start or from a step on."""
        named = None if step is None else check_text("step", step, LONGEST_PATH)
        return (yield from self._apply("restart", {"step": named}, dry_run))

    def retry(self, *, max_attempts: int | None = None, dry_run: bool = False) -> Flow[BulkResult]:
        """Reopen those that failed or were canceled, each with a fresh budget of attempts."""
        arguments = {"max_attempts": check_budget(max_attempts)}
        return (yield from self._apply("retry", arguments, dry_run))

    def reschedule(
        self, *, at: datetime | None = None, delay: Duration | None = None, dry_run: bool = False
    ) -> Flow[BulkResult]:
        """Move those that have not started to another time; reopen the failed and canceled ones for
        that time. A `delay` begins when a run is moved."""
        arguments = {"at": None, "delay": None, **check_time(at, delay)}
        return (yield from self._apply("reschedule", arguments, dry_run))

    def reprioritize(
        self, *, priority: int | None = None, queue: str | None = None, dry_run: bool = False
    ) -> Flow[BulkResult]:
        """Give those that have not started another priority, another queue, or both."""
        return (yield from self._apply("reprioritize", check_place(priority, queue), dry_run))

    def change(self, *, dry_run: bool = False, **changes: Unpack[RunChanges]) -> Flow[BulkResult]:
        """Give those that wait other `tags`, another `timeout`, `expires` or `deadline`; None takes
        one of the last three away."""
        arguments = {"changes": check_changes(changes, many=True)}
        return (yield from self._apply("change", arguments, dry_run))

    def discard(self, *, dry_run: bool = False) -> Flow[BulkResult]:
        """Take the failed ones off the dead letters for good."""
        return (yield from self._apply("discard", {}, dry_run))

    def _filter(self) -> Flow[RunFilter]:
        return (yield from make_filter(self._scope, self._given))

    def _apply(self, name: str, arguments: Mapping[str, Any], dry_run: bool) -> Flow[BulkResult]:
        """Apply a verb, or only count. Raises UsageError where no filter says which runs."""
        if not self._given and not self._everything:
            raise UsageError(
                f"{name} needs a filter that says which runs: give select() one, such as job=, or "
                "everything=True if you mean all of them."
            )
        verb = BULK_VERBS[name]
        if dry_run:
            return (yield from try_on_all(self._scope, verb, self._given))
        return (yield from apply_to_all(self._scope, verb, self._given, arguments))
