"""The default transport: none. Workers claim what is ready in the store itself."""

from collections.abc import Sequence


class StoreTransport:
    """Workers pull from the heads of their queues."""

    pulls = True

    def publish(self, messages: Sequence[bytes]) -> None:
        """Nothing to send: what is ready is seen by every worker."""

    async def receive(self, limit: int) -> Sequence[bytes]:
        """Never called: there are no messages."""
        return []

    async def close(self) -> None:
        """Nothing to stop."""
