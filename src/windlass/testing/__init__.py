"""For tests of applications: a store of their own, a clock that they move, and runs by hand.

    from windlass import testing

    def test_reminder(windlass_app, windlass_clock):     # fixtures of the pytest plugin
        remind.using(delay="30d").enqueue(user_id=7)
        windlass_clock.advance("30d")
        assert testing.drain(windlass_app).succeeded

Nothing here is a mock. Runs go through the real store, codec and attempt; what differs is the
clock, and that they run one at a time, here, when told to. What writes refuses an application that
is not on such a clock (:func:`isolated` puts it there), so that no test can touch a store in use.

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
    from windlass.testing.places import clock_of, isolated

__all__ = [
    "Drained",
    "EndlessDrain",
    "Given",
    "VirtualClock",
    "adrain",
    "amake_run",
    "arun_job",
    "assert_enqueued",
    "clock_of",
    "drain",
    "enqueued",
    "given",
    "inline",
    "isolated",
    "make_run",
    "refute_enqueued",
    "run_job",
]

_HOMES = {
    "assertions": "assert_enqueued enqueued refute_enqueued",
    "attempts": "Given arun_job given run_job",
    "clock": "VirtualClock",
    "draining": "Drained EndlessDrain adrain drain",
    "factories": "amake_run make_run",
    "inline": "inline",
    "places": "clock_of isolated",
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
