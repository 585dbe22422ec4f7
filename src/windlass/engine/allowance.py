"""How much one trip to the store carries: less after one that was lost or took long, more after
those that were quick.

Inputs and results may have a mebibyte each. A trip that is too large for the way to the store is
cut off, its ends and its claim alike, and so would be the next like it, for ever; the sender cannot
tell that from a store that is away. One that arrives after a minute is no loss, but everything
else has waited for it. So the pump has an allowance of each thing that makes a trip large:

- the weight of the ends, a few mebibytes of results and errors; one end goes, however large;
- the runs that are asked for, down to one;
- both at once. Else ends and claims go by turns, ends first, and one trip at a time.

After a loss a quarter of what went may go. A trip that arrives with all that may go lets four times
as much go: a worker that was cut off asks for as much as ever within five trips. If one is lost
just when more went, that probably was too much: each time it takes twice as many that arrive before
more is tried again. So a worker on a slow line finds what the line bears, and wastes little of it.
"""

_STEP = 4  # so many times less after a loss, and more after none
_SELDOM = 64  # trips between two that may be too large


class Allowance:
    """How much of one thing may go in one trip."""

    def __init__(self, most: int, least: int) -> None:
        self.now = most
        self._most = most
        self._least = least
        self._good = 0  # trips with all that may go that arrived since it changed
        self._enough = 1  # of those, for more to go
        self._grown = False  # more may go, and never did yet

    def arrived(self, carried: int) -> None:
        """A trip with so much was answered."""
        if carried < self.now:
            return  # it says nothing about more
        if self._grown:
            self._grown = False
            self._enough = max(1, self._enough // 2)
        self._good += 1
        if self._good >= self._enough and self.now < self._most:
            self.now = min(self.now * _STEP, self._most)
            self._good, self._grown = 0, True

    def lost(self, carried: int) -> None:
        """A trip with so much was not, or not soon."""
        if self._grown and carried * _STEP > self.now:  # more than went before it grew
            self._enough = min(self._enough * 2, _SELDOM)
        self.now = max(self._least, min(self.now, carried) // _STEP)
        self._good, self._grown = 0, False
