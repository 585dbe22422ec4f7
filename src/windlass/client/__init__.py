"""What an application does with runs: enqueue, look, wait, cancel, retry, reschedule. Two faces."""

from windlass.client.client import Client
from windlass.client.requests import Request, Using
from windlass.client.run import Run

__all__ = ["Client", "Request", "Run", "Using"]
