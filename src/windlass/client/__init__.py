"""What an application does with runs: enqueue, look, wait, cancel, retry, reschedule."""

from windlass.client.bulk import BulkResult
from windlass.client.requests import Request, Using
from windlass.client.run import Run
from windlass.client.scope import Ground, Scope
from windlass.client.selection import Selection

__all__ = ["BulkResult", "Ground", "Request", "Run", "Scope", "Selection", "Using"]
