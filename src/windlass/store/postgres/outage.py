"""Says at once that the server cannot be reached; calls fail only after a while of trying."""

from windlass.logs import steady_log

log = steady_log(__name__)


class Outage:
    """Logs when it begins and when it is over, once each, however many calls notice it."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.lasts = False

    def begin(self, error: str) -> None:
        """A call has failed, and is tried again."""
        if not self.lasts:
            self.lasts = True
            extra = {"store": self._place, "error": error}
            log.warning("PostgreSQL cannot be reached, still trying", extra=extra)

    def end(self) -> None:
        """A call has reached the server."""
        if self.lasts:
            self.lasts = False
            log.info("PostgreSQL is reached again", extra={"store": self._place})
