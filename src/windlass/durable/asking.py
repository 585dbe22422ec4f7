"""The methods of contexts that ask people: awaited in async handlers, plain in threads."""

from collections.abc import Coroutine
from typing import Any

from windlass.domain.approval import Approval
from windlass.durable.awaited import AwaitedWork
from windlass.durable.blocking import BlockingWork
from windlass.durable.requests import Desk, Notify, check_notify
from windlass.duration import Duration


class AwaitedAsking:
    """Questions to people, for async handlers."""

    __slots__ = ()

    def _durable(self) -> tuple[AwaitedWork, Desk]:
        raise AssertionError("a context has this")

    def approval(
        self,
        question: str,
        *,
        expires: Duration | None = None,
        name: str = "approval",
        notify: Notify | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, Approval]:
        """Ask people a question, and wait for their answer without a seat: see `app.approve`.

        What it returns is true if they approved. If nobody answers within `expires`, it is not
        approved, and `expired` is true. `name` is what people call it by; each further one of that
        name is numbered, as steps are. `notify` tells them: it is a step of its own, and is given a
        request with a token to answer by.
        """
        work, desk = self._durable()
        return work.run(*desk.approval(question, expires, name, key, notify))


class BlockingAsking:
    """Questions to people, for handlers in threads."""

    __slots__ = ()

    def _durable(self) -> tuple[BlockingWork, Desk]:
        raise AssertionError("a context has this")

    def approval(
        self,
        question: str,
        *,
        expires: Duration | None = None,
        name: str = "approval",
        notify: Notify | None = None,
        key: str | None = None,
    ) -> Approval:
        """Ask people a question, and wait for their answer without a seat: see `app.approve`.

        What it returns is true if they approved. If nobody answers within `expires`, it is not
        approved, and `expired` is true. `name` is what people call it by; each further one of that
        name is numbered, as steps are. `notify` tells them: it is a step of its own, and is given a
        request with a token to answer by.
        """
        check_notify(notify)
        work, desk = self._durable()
        answer: Approval = work.run(*desk.approval(question, expires, name, key, notify))
        return answer
