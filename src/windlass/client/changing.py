"""What callers change about a run that waits, and a run made from another one, checked."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from windlass import codec
from windlass.client.requests import Request, UsingOptions, read_option
from windlass.client.scope import Scope
from windlass.current import trace_of
from windlass.domain.changes import Changes
from windlass.domain.run import Options, RunRecord
from windlass.duration import Duration
from windlass.errors import BadOption, IllegalTransition
from windlass.store.flow import Flow


class RunChanges(TypedDict, total=False):
    """What can be changed about many runs at once: the arguments of ``select(…).change``."""

    tags: Iterable[str]
    timeout: Duration | None
    expires: Duration | datetime | None
    deadline: Duration | datetime | None


class ChangeOptions(RunChanges, total=False):
    """What can be changed about a run that waits: the arguments of ``change``."""

    input: Mapping[str, Any]


def check_changes(given: Mapping[str, Any], *, many: bool = False) -> Changes:
    """All but the input, as the store takes it; raises BadOption or BadDuration."""
    known = RunChanges if many else ChangeOptions
    names = ", ".join(sorted(known.__annotations__))
    if not given:
        raise BadOption("change", f"give what is to change: {names}")
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known.__annotations__:
            raise BadOption(name, f"it cannot be changed; what can is {names}")
        if name != "input":
            changes |= _chosen(name, value)
    return Changes(**changes)


def _chosen(name: str, value: Any) -> dict[str, Any]:
    """One change; of an expiry or a deadline, that there is to be none is said by its instant."""
    read = read_option(name, value)
    if name not in ("expires", "deadline"):
        return read
    set_ = {part: chosen for part, chosen in read.items() if chosen is not None}
    return set_ or {f"{name}_at": None}


def check_input(scope: Scope, run: RunRecord, input: Mapping[str, Any]) -> Flow[msgspec.Raw]:
    """Another input of a run: checked by its job's signature, or as an enqueue by name is."""
    if input is None:
        raise BadOption("input", "give the arguments by name, as a dict: {} if there are none")
    request = yield from scope.requester.asked(run.job, input)
    return msgspec.Raw(request.input)


def ask_again(
    scope: Scope, run: RunRecord, input: Mapping[str, Any] | None, options: UsingOptions
) -> Flow[Request[Any]]:
    """A request for a new run like one that has ended, with another input if one is given.

    It has neither its key nor its times, which have passed: these are as the job says.
    """
    if not run.status.finished:
        raise IllegalTransition(run.id, run.status.value, "run_again")
    kept: UsingOptions = {
        "queue": run.queue,
        "priority": run.priority,
        "tags": run.tags,
        "trace": trace_of(run),
        "metadata": codec.decode(run.metadata) or {},
    }
    stored = run.options or Options()
    if stored.max_attempts is not None:
        kept["max_attempts"] = stored.max_attempts
    if stored.timeout is not None:
        kept["timeout"] = stored.timeout
    wanted = codec.decode(run.input) if input is None else input
    kept.update(options)
    request = yield from scope.requester.asked(run.job, wanted, **kept)
    own = msgspec.structs.replace(request.using.options or Options(), again_of=run.id)
    return msgspec.structs.replace(request, using=replace(request.using, options=own))
