"""What an application does with runs: enqueue, look, wait, cancel, retry, reschedule."""

from windlass.client.requests import Request, Using
from windlass.client.run import Run
from windlass.client.scope import Ground, Scope

__all__ = ["Ground", "Request", "Run", "Scope", "Using"]
