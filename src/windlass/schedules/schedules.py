"""`app.schedules`: the schedules of an application, those that its code declares included."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from windlass.client.scope import Scope
from windlass.requester import Requester
from windlass.schedules.declared import Declarations, Declared
from windlass.schedules.faces import ScheduleFaces
from windlass.schedules.verbs import ScheduleVerbs
from windlass.schedules.wanted import ScheduleTerms

if TYPE_CHECKING:
    from windlass.files.registry import Jobs
    from windlass.job import Job


class Schedules(ScheduleFaces):
    """Make, look, change, pause, resume, trigger, backfill, delete; by key or by id."""

    def __init__(self, scope: Scope, jobs: "Jobs", requester: Requester) -> None:
        self._declarations = Declarations(scope, jobs, requester)
        self._flows = ScheduleVerbs(scope, requester, self._declarations)

    @property
    def _verbs(self) -> ScheduleVerbs:
        return self._flows

    def declare(
        self,
        job: "str | Job[Any, Any, Any]",
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Declared:
        """As `app.schedule`."""
        return self._declarations.declare(job, key, input, terms)

    def forget(self, keys: Sequence[str]) -> None:
        """Declare these no longer; what is stored stays."""
        self._declarations.forget(keys)
