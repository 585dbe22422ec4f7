"""Chains: runs in a row, each with the result of the one before; see `domain/follower.py`.

All runs of a chain are enqueued together, all or none. Each but the first comes after the one
before it, whose result is put into its input as its first argument when that has succeeded. If one
does not succeed, the rest is canceled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar, overload

import msgspec

from windlass.client import Request, Run, Scope
from windlass.client.enqueue import enqueue
from windlass.client.requests import check_connection
from windlass.errors import BadOption, UsageError
from windlass.job import Job
from windlass.store.flow import Flow, arun_flow, run_flow

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

if TYPE_CHECKING:  # before Python 3.12 a union of these cannot be made when it is run
    First = Job[[], Any, Any, A] | Request[A]
    Next = Job[Concatenate[A, ...], Any, Any, B] | Request[B]


class Chaining:
    """`app.chain`, and its async twin."""

    scope: Scope

    @overload
    def chain(
        self, first: First[A], second: Next[A, B], /, *, connection: object = ...
    ) -> tuple[Run[A], Run[B]]: ...
    @overload
    def chain(
        self, first: First[A], second: Next[A, B], third: Next[B, C], /, *, connection: object = ...
    ) -> tuple[Run[A], Run[B], Run[C]]: ...
    @overload
    def chain(
        self,
        first: First[A],
        second: Next[A, B],
        third: Next[B, C],
        fourth: Next[C, D],
        /,
        *,
        connection: object = ...,
    ) -> tuple[Run[A], Run[B], Run[C], Run[D]]: ...
    @overload
    def chain(
        self,
        first: First[Any],
        second: Next[Any, Any],
        third: Next[Any, Any],
        fourth: Next[Any, Any],
        /,
        *more: Next[Any, Any],
        connection: object = ...,
    ) -> tuple[Run[Any], ...]: ...

    def chain(self, *links: Any, connection: object = ...) -> tuple[Run[Any], ...]:
        """Enqueue runs that start one after the other: `app.chain(fetch.request(url), resize)`.

        The first is a request, or a job without arguments. Each next job gets the result of the run
        before as its first argument; give others with `job.link(width=200)`. If a run does not
        succeed, those after it are canceled. All are enqueued, or none; with `connection`, your own
        transaction, if and only if that commits.
        """
        return run_flow(self.scope.store, _chain(self.scope, links, connection))

    @overload
    async def achain(
        self, first: First[A], second: Next[A, B], /, *, connection: object = ...
    ) -> tuple[Run[A], Run[B]]: ...
    @overload
    async def achain(
        self, first: First[A], second: Next[A, B], third: Next[B, C], /, *, connection: object = ...
    ) -> tuple[Run[A], Run[B], Run[C]]: ...
    @overload
    async def achain(
        self,
        first: First[A],
        second: Next[A, B],
        third: Next[B, C],
        fourth: Next[C, D],
        /,
        *,
        connection: object = ...,
    ) -> tuple[Run[A], Run[B], Run[C], Run[D]]: ...
    @overload
    async def achain(
        self,
        first: First[Any],
        second: Next[Any, Any],
        third: Next[Any, Any],
        fourth: Next[Any, Any],
        /,
        *more: Next[Any, Any],
        connection: object = ...,
    ) -> tuple[Run[Any], ...]: ...

    async def achain(self, *links: Any, connection: object = ...) -> tuple[Run[Any], ...]:
        """As `chain`, in async code."""
        return await arun_flow(self.scope.store, _chain(self.scope, links, connection))


def _chain(scope: Scope, links: Sequence[Any], connection: object) -> Flow[tuple[Run[Any], ...]]:
    if len(links) < 2:
        raise UsageError("A chain has two jobs or more: app.chain(first.request(...), second).")
    ids = scope.sources.new_ids(len(links))
    requests = [_check(n, link) for n, link in enumerate(links)]
    if connection is not ...:
        requests = [request.within(check_connection(connection)) for request in requests]
    linked = [requests[0]]
    for request, before in zip(requests[1:], ids[:-1], strict=True):
        using = replace(request.using, after=(before,))
        linked.append(msgspec.structs.replace(request, using=using))
    runs = yield from enqueue(scope, linked, ids)
    return tuple(runs)


def _check(n: int, link: Any) -> Request[Any]:
    """A link of a chain as a request. Raises UsageError, BadOption or BadArguments."""
    if isinstance(link, Job):
        request: Request[Any] = link.request() if n == 0 else link.link()
    elif isinstance(link, Request):
        request = link
    else:
        raise UsageError(f"{link!r} is neither a job nor a request: see app.chain.")
    if n > 0 and request.using.takes is None:
        raise UsageError(
            f"A request of job {request.job!r} has all its arguments, and cannot get the result of "
            "the run before: give the job itself, or job.link(...) with its other arguments."
        )
    if n > 0 and request.using.after:
        raise BadOption("after", "in a chain only the first run may come after others")
    if request.using.key is not None:
        why = "runs of a chain have none: enqueue them one by one, with after="
        raise BadOption("key", why)
    return request
