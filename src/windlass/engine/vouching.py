"""What a heartbeat vouches for: everything, while the event loop answers.

While it does not (:mod:`windlass.engine.watchdog`), for as long as a lease, a renewal says so and
still names everything. After that it names only runs in child processes that are alive: they go on
by themselves, and whatever they tell is read when the loop is back. All else cannot be vouched for:
handlers on the loop stand still, and the ends of those in threads cannot be recorded. So the store
gives these back, in the same transaction as the renewal:

- The run that blocks the loop has crashed, beyond doubt: `max_crashes` of that give it up.
- If any run on the loop may be the one, all of them have, as when a worker dies with several runs.
- If the loop is in code of the worker's own or of its host, none has.
- All others were interrupted, which counts nowhere. They are told as soon as they can be: handlers
  in threads see `ctx.canceled` at once, those on the loop are canceled when it is back.
- Claims that were under way are renounced. What they bring was given back, or will be by the next
  renewal, and is not started.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from windlass.domain.outcome import decide_crash
from windlass.domain.report import clean_traceback
from windlass.domain.run import Blocked, Finish, Held
from windlass.engine.attempt import finish
from windlass.engine.holdings import Holding, Holdings, Standing
from windlass.engine.watchdog import Blockage, runs_on_loop
from windlass.errors import WorkerDisrupted


@dataclass(frozen=True, slots=True)
class Vouched:
    """What one renewal says."""

    settled: int
    held: Sequence[Held]
    blocked: Blocked | None = None
    given_up: Sequence[Holding] = ()


def vouch(
    holdings: Holdings, look: Callable[[], Blockage | None], lease: float, max_crashes: int
) -> Vouched:
    """Say what is held, by how the loop is; `look` says how that is."""
    # First: a loop that comes back after the look may take more, which is not given up.
    standing = holdings.standing()
    blockage = look()
    if blockage is None:
        return Vouched(*holdings.snapshot())
    if blockage.seconds < lease:
        return Vouched(*holdings.snapshot(), _told(blockage))
    return give_up(holdings, standing, blockage, max_crashes)


def give_up(
    holdings: Holdings,
    standing: Standing,
    blockage: Blockage,
    max_crashes: int,
    *,
    everything: bool = False,
) -> Vouched:
    """Say what is held by a worker whose loop is given up; `everything`: nothing is.

    `standing` is from before anybody looked at the loop.
    """
    held = standing.held
    holdings.renounce_claims(standing.claims)
    settled = min(holdings.snapshot()[0], standing.claims)
    kept = [] if everything else [h for h in held if h.isolated and h.exists()]
    given_up = [holding for holding in held if holding not in kept]
    blamed = _blamed(given_up, blockage, max_crashes)
    return Vouched(settled, [holding.held for holding in kept], _told(blockage, blamed), given_up)


def _told(blockage: Blockage, blamed: Sequence[Finish] = ()) -> Blocked:
    claimed = None if blockage.holding is None else blockage.holding.claimed
    return Blocked(
        seconds=blockage.seconds,
        tenant=None if claimed is None else claimed.tenant,
        run=None if claimed is None else claimed.id,
        blamed=tuple(blamed),
    )


def _blamed(given_up: Sequence[Holding], blockage: Blockage, max_crashes: int) -> Sequence[Finish]:
    certain = blockage.holding is not None
    error = WorkerDisrupted(f"it blocked the event loop for {blockage.seconds:.0f} s")
    ends = []
    for holding in _culprits(given_up, blockage):
        verdict = decide_crash(
            crashes_before=holding.claimed.crash_count, max_crashes=max_crashes, alone=certain
        )
        end = finish(holding, verdict, error=error)
        assert end.error is not None
        where = msgspec.structs.replace(end.error, traceback=clean_traceback(blockage.stack))
        ends.append(msgspec.structs.replace(end, error=where))
    return ends


def _culprits(given_up: Sequence[Holding], blockage: Blockage) -> Sequence[Holding]:
    if blockage.holding is not None:  # it may have ended, and left a task behind: then it is nobody
        return [holding for holding in given_up if holding is blockage.holding]
    if not blockage.anybody:
        return []
    return [h for h in given_up if h.started is not None and not h.concluded and runs_on_loop(h)]
