"""The background services of a worker. To add one, write its module and add it to this list."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from windlass.engine.environment import Environment
from windlass.engine.hosts import ServiceHost
from windlass.engine.janitor import Janitor
from windlass.engine.scheduler import Scheduler
from windlass.engine.service import News, Service
from windlass.engine.sweeper import Sweeper
from windlass.engine.throttle import Throttle
from windlass.engine.unit_sweeper import UnitSweeper


def make_services(environment: Environment) -> Sequence[Service]:
    """Every service that a worker runs, unless it is told to run none."""
    return [
        Sweeper(environment),
        Scheduler(environment),
        UnitSweeper(environment),
        Janitor(environment),
    ]


class Services:
    """The services of one worker: started and woken all alike."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.all = tuple(services)
        self._wakes: dict[News, list[Callable[[], None]]] = defaultdict(list)
        for service in self.all:
            for news, pause in service.wakes_on.items():
                wake = Throttle(pause, service.wake) if pause else service.wake
                self._wakes[news].append(wake)

    def start(self, host: ServiceHost) -> None:
        """Start them all, on the running loop."""
        for service in self.all:
            service.start(host)

    def spread(self, news: News) -> None:
        """Wake those that want to know."""
        for wake in self._wakes[news]:
            wake()

    def spread_in(self, seconds: float, news: News) -> None:
        """Wake them after so many seconds."""
        asyncio.get_running_loop().call_later(seconds, self.spread, news)
