"""For tests of applications: a store of their own, a clock that they move, and runs by hand.

    from windlass import testing

    def test_reminder(windlass_app, windlass_clock):     # fixtures of the pytest plugin
        remind.using(delay="30d").enqueue(user_id=7)
        windlass_clock.advance("30d")
        assert testing.drain(windlass_app).succeeded

Nothing here is a mock. Runs go through the real store, codec and attempt; what differs is the
clock, and that they run one at a time, here, when told to. What is here refuses an application that
is not on such a clock (:func:`isolated` puts it there), and in a test session no other store is
opened at all (:mod:`windlass.guard`), so that no test can touch a store in use.

The names are imported when first used, since pytest imports this package in every project that
has Windlass installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.testing.assertions import assert_enqueued, enqueued, refute_enqueued
    from windlass.testing.attempts import Given, arun_job, given, run_job
    from windlass.testing.clock import VirtualClock
    from windlass.testing.draining import Drained, EndlessDrain, adrain, drain
    from windlass.testing.factories import amake_run, make_run
    from windlass.testing.inline import inline
    from windlass.testing.places import clock_of, isolated, real_store
    from windlass.testing.steps import (
        SimulatedCrash,
        answer,
        answer_approval,
        crash_after,
        stand_in,
    )
    from windlass.testing.transactions import in_transaction

__all__ = [
    "Drained",
    "EndlessDrain",
    "Given",
    "SimulatedCrash",
    "VirtualClock",
    "adrain",
    "amake_run",
    "answer",
    "answer_approval",
    "arun_job",
    "assert_enqueued",
    "clock_of",
    "crash_after",
    "drain",
    "enqueued",
    "given",
    "in_transaction",
    "inline",
    "isolated",
    "make_run",
    "real_store",
    "refute_enqueued",
    "run_job",
    "stand_in",
]

_HOMES = {
    "assertions": "assert_enqueued enqueued refute_enqueued",
    "attempts": "Given arun_job given run_job",
    "clock": "VirtualClock",
    "draining": "Drained EndlessDrain adrain drain",
    "factories": "amake_run make_run",
    "inline": "inline",
    "places": "clock_of isolated real_store",
    "steps": "SimulatedCrash answer answer_approval crash_after stand_in",
    "transactions": "in_transaction",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # `inline` is a module of this package as well: importing that has set the name to it.
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
