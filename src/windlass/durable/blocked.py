"""Whether a task waits for nothing but durable waits, so that it may give up its seat.

It is looked at from outside, since a handler may wait in any way that Python has. What can be seen
through: another task, `asyncio.gather`, `asyncio.TaskGroup`, `asyncio.wait` and what is built of
these. Anything else, such as a socket, an event or a queue, is taken for work that goes on; then
the handler keeps its seat, which is right, if not thrifty.

So is everything that ends by the loop's own clock (`asyncio.timeout`, `asyncio.wait_for`, anyio's
scopes): its clock starts anew when the handler is called again, so it would never run out.

A library that waits in ways of its own can say which of its tasks the caller waits for (`through`,
`AwaitedWork.on_behalf_of`). If all of them wait in durable waits, so does the caller.

`_fut_waiter` and `_children` are no public names of asyncio. They are the same in Python 3.11 to
3.14, tests would find them gone, and without them handlers just keep their seats.
"""

import asyncio
import gc
import inspect
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

_GROUPS = (asyncio.TaskGroup,)
_CLOCKS = (asyncio.TimerHandle, asyncio.Timeout)
_DEPTH = 50

Through = Mapping["asyncio.Task[Any]", Collection["asyncio.Task[Any]"]]
"""The tasks that a task waits for in a way that cannot be seen."""
_NOTHING: Through = {}


def is_blocked(
    task: "asyncio.Task[Any]",
    durable: Collection["asyncio.Future[Any]"],
    seen: frozenset[Any] = frozenset(),
    *,
    clocks: bool = True,
    through: Through = _NOTHING,
) -> bool:
    """Whether the task, and all that it waits for, waits in one of these futures.

    Without `clocks`, it may also wait in something that ends by the loop's own clock.
    """
    if task.done():
        return True
    waiter = getattr(task, "_fut_waiter", None)
    if waiter is None or waiter.done() or task in seen or len(seen) > _DEPTH:
        return False
    seen |= {task}
    chain = list(_chain(task))
    held = [item for coroutine in chain for item in _held(coroutine)]
    if clocks and any(_has_clock(item) for item in held):
        return False
    if waiter in durable:
        return True
    waited = list(through.get(task) or _waited_for(waiter, held))
    return bool(waited) and all(
        _is_blocked(each, durable, seen, clocks, through) for each in waited
    )


def _is_blocked(
    future: "asyncio.Future[Any]",
    durable: Collection["asyncio.Future[Any]"],
    seen: frozenset[Any],
    clocks: bool,
    through: Through,
) -> bool:
    if future.done() or future in durable:
        return True
    if isinstance(future, asyncio.Task):
        return is_blocked(future, durable, seen, clocks=clocks, through=through)
    children = getattr(future, "_children", None)
    return bool(children) and all(
        _is_blocked(child, durable, seen, clocks, through) for child in children or ()
    )


def _waited_for(
    waiter: "asyncio.Future[Any]", held: Iterable[object]
) -> Iterator["asyncio.Future[Any]"]:
    """The futures whose ends let the waiter go on."""
    if isinstance(waiter, asyncio.Task) or getattr(waiter, "_children", None):
        yield waiter
        return
    # asyncio.wait, or a TaskGroup: the coroutine that waits has the tasks, or the group.
    for item in held:
        if isinstance(item, _GROUPS):
            yield from getattr(item, "_tasks", ())
        elif isinstance(item, (set, frozenset, list, tuple)):
            yield from (each for each in item if isinstance(each, asyncio.Future))


def _chain(task: "asyncio.Task[Any]") -> Iterator[Any]:
    """The coroutines that the task is in, from its own to the innermost."""
    awaited: Any = task.get_coro()
    while awaited is not None:
        yield awaited
        if inspect.iscoroutine(awaited):
            awaited = awaited.cr_await
        elif inspect.isgenerator(awaited):
            awaited = awaited.gi_yieldfrom
        else:
            return


def _held(coroutine: object) -> Iterator[object]:
    """What the frame of a coroutine holds, those included whose `async with` it is in."""
    for item in gc.get_referents(coroutine):
        yield item
        bound = getattr(item, "__self__", None) if inspect.ismethod(item) else None
        if bound is not None:
            yield bound


def _has_clock(item: object) -> bool:
    if isinstance(item, asyncio.Timeout):
        return item.when() is not None
    if isinstance(item, asyncio.TimerHandle):
        return not item.cancelled()
    if type(item).__name__ == "CancelScope":  # anyio's
        deadline = getattr(item, "deadline", math.inf)
        return isinstance(deadline, float) and deadline < math.inf
    return False
