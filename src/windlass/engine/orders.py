"""What operators want of the runs that a worker holds: it hears all of it with each heartbeat."""

from collections.abc import Callable, Sequence

from windlass.domain.run import Ordered
from windlass.domain.states import Intent
from windlass.engine.holdings import Holding, Holdings


class Orders:
    """Passes on what is asked for, and what is no longer."""

    def __init__(
        self,
        holdings: Holdings,
        cancel: Callable[[Holding, str | None], None],
        release: Callable[[Holding], None],
        now: Callable[[], float],
    ) -> None:
        self._holdings = holdings
        self._cancel = cancel
        self._release = release
        self._now = now
        self._pausing = set[Holding]()  # those that were asked to pause, as last heard

    def heed(self, orders: Sequence[Ordered]) -> None:
        """Do what is asked, all of it: a request to pause that is not among them is over.

        An intent of a newer release leaves its run alone.
        """
        pausing = set[Holding]()
        for order in orders:
            holding = self._holdings.find(order.tenant, order.id, order.token)
            if holding is None or holding.stop is not None or holding.concluded:
                continue
            if order.intent is Intent.CANCEL:
                holding.heard_at = self._now()
                self._cancel(holding, order.reason)
            elif order.intent is Intent.PAUSE:
                pausing.add(holding)
        if pausing or self._pausing:
            self._let_pause(pausing)

    def _let_pause(self, pausing: set[Holding]) -> None:
        """Tell handlers that they are to pause, or no longer; the store pauses what is given
        back."""
        changed, self._pausing = pausing ^ self._pausing, pausing
        for holding in changed:
            holding.pausing = holding in pausing
            if holding.stop is None:  # else it was asked to end meanwhile, which counts
                holding.heard_at = self._now() if holding.pausing else None
            if holding.pausing and holding.started is None:
                self._release(holding)
            elif holding.told is not None:
                holding.told()
