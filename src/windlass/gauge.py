"""The gauge of one attempt: what its handler tells of its progress, until that is written.

A handler may tell a hundred thousand times a second; a person looks once. So telling only sets a
few attributes, and the first word after a write asks for the next one (`enlist`). Whoever writes
takes a snapshot then: the latest word counts, whatever came between.

Nothing here locks. Each attribute is set by itself, in whichever thread. A word is set *before* the
mark that there is one is looked at, and the mark is taken off *before* the words are read: so no
word stays behind unmarked.
"""

from collections.abc import Callable, Sequence

from windlass.domain.job import check_text
from windlass.domain.phase import overall
from windlass.domain.progress import Detail, Pace, Units, check_fraction, check_units
from windlass.domain.run import Held, ProgressWrite

_LONGEST_MESSAGE = 10_000
_NO_UNITS = Units()


class Gauge:
    """What one attempt has told, and whether that is written."""

    __slots__ = (
        "_began",
        "_counts",
        "_enlist",
        "_fraction",
        "_held",
        "_marked",
        "_message",
        "_monotonic",
        "_pace",
        "_phases",
        "_place",
        "_relayed",
        "_units",
        "over",
    )

    def __init__(
        self, held: Held, monotonic: Callable[[], float], enlist: Callable[["Gauge"], None]
    ) -> None:
        """`enlist` is called when there is something to write; in any thread."""
        self._held = held
        self._monotonic = monotonic
        self._enlist = enlist
        self._marked = False
        self._fraction: float | None = None
        self._message: str | None = None
        self._units: Units | None = None
        self._pace = Pace()
        self._counts = False  # it has counted more than once: there is a rate
        self._phases: Sequence[str] = ()
        self._place = 0
        self._began = 0.0
        self._relayed: ProgressWrite | None = None
        self.over = False  # the attempt has ended: nothing more is written

    @property
    def held(self) -> Held:
        """The lease that it is written under."""
        return self._held

    def tell(self, fraction: float | None, message: str | None) -> None:
        """How far the run is, or the phase that it is in, and what it is doing."""
        told = check_fraction(fraction)
        self._message = check_text("message", message, _LONGEST_MESSAGE) if message else None
        self._fraction = told
        if not self._marked:
            self._mark()

    def count(self, done: int | None, failed: int | None, total: int | None) -> None:
        """How many units are over; with a total, that is the progress too."""
        before = self._units
        units = check_units(before or _NO_UNITS, done, failed, total)
        if before is None:
            self._pace.add(self._monotonic(), units.processed)
        else:
            self._counts = True
        self._units = units
        if units.total is not None:
            self._fraction = units.processed / units.total if units.total else 1.0
        if not self._marked:
            self._mark()

    def enter(self, phases: Sequence[str], place: int) -> None:
        """A phase begins: what the one before it told is over."""
        self._phases, self._place, self._began = phases, place, self._monotonic()
        self._fraction, self._message = 0.0, None
        self._units, self._pace, self._counts = None, Pace(), False
        self._mark()

    def complete(self) -> None:
        """The phase has ended well."""
        self._fraction = 1.0
        self._mark()

    def finish(self, phases: Sequence[str]) -> None:
        """All phases have ended well, in this attempt or before."""
        if (self._phases, self._place) != (phases, len(phases) - 1):
            self.enter(phases, len(phases) - 1)  # it was recorded by an earlier attempt
        self.complete()

    def relay(self, write: ProgressWrite) -> None:
        """What the gauge of a child process says: it counts as told here."""
        self._relayed = write
        self._mark()

    def take(self) -> ProgressWrite | None:
        """What is to be written now; None if nothing was told since the last time."""
        if not self._marked:
            return None
        self._marked = False
        return self.last()

    def last(self) -> ProgressWrite:
        """What was told last, whether that is written or not."""
        held, relayed = self._held, self._relayed
        tenant, run, token = held.tenant, held.id, held.token
        if relayed is not None:
            return ProgressWrite(
                tenant=tenant, id=run, token=token, fraction=relayed.fraction,
                message=relayed.message, detail=relayed.detail,
            )  # fmt: skip
        own = self._fraction
        fraction = overall(self._place, own or 0.0, len(self._phases)) if self._phases else own
        return ProgressWrite(
            tenant=tenant, id=run, token=token, fraction=fraction,
            message=self._message, detail=self._detail(own),
        )  # fmt: skip

    def again(self, _: ProgressWrite) -> None:
        """What was taken could not be written: take it, or what was told since, once more."""
        self._mark()

    def close(self) -> None:
        """The attempt is over."""
        self.over = True

    def _mark(self) -> None:
        self._marked = True
        self._enlist(self)

    def _detail(self, own: float | None) -> Detail | None:
        units, now = self._units, self._monotonic()
        if units is not None:
            rate = self._pace.add(now, units.processed) if self._counts else None
            units = Units(done=units.done, failed=units.failed, total=units.total, rate=rate)
        if not self._phases:
            return None if units is None else Detail(units=units)
        return Detail(
            units=units,
            phases=tuple(self._phases),
            place=self._place,
            own=own,
            took=max(0.0, now - self._began),
        )
