"""Outages: whoever sweeps after a gap, however new to the store, spares workers that may live.

The knowledge is in the store: a mark of the latest sweep, by the store's clock. So these tests
sweep through connections that were never used before, and with nothing but default arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from tests.conformance.kit import LEASE, WORKER, Driver, requires
from tests.conformance.places import Place, PostgresPlace, opened
from tests.conformance.plain_sql import Client
from windlass.domain.run import SweepReply
from windlass.domain.states import Failure, Status

STEP = LEASE / 6  # as often as workers reap
GRACE = LEASE * 2 / 3
HOUR = timedelta(hours=1)
NOBODY = (0, 0, ())

Newcomer = Callable[[], SweepReply]


@pytest.fixture
def newcomer(place: Place, drive: Driver) -> Newcomer:
    """The first sweep of somebody who has just started, and who would give up a run at once."""

    def sweep() -> SweepReply:
        with place.open(drive.sources) as store, opened(place) as tables:
            return look(Driver(store, store.run, drive.sources, tables))

    return sweep


def look(drive: Driver, **how: float) -> SweepReply:
    """A sweep as any process does it."""
    return drive.sweep(
        dispatch=True,
        expire=True,
        reap=True,
        max_crashes=1,
        spare=True,
        **how,  # type: ignore[arg-type]
    )


def watch(drive: Driver, seconds: float) -> list[SweepReply]:
    """Let time pass while somebody sweeps as often as workers do."""
    replies = []
    while seconds > 1e-9:
        drive.advance(min(STEP, seconds))
        seconds -= STEP
        replies.append(look(drive))
    return replies


def moved(reply: SweepReply) -> tuple[int, int, tuple[str, ...]]:
    return reply.reaped, reply.crashed, reply.workers


def test_a_newcomer_after_an_outage_takes_nobody_for_dead(
    drive: Driver, newcomer: Newcomer
) -> None:
    held = [drive.start(f"w{n}") for n in range(3)]
    watch(drive, LEASE / 3)
    drive.advance(LEASE * 1.1)  # nobody can write

    replies = [newcomer(), newcomer(), look(drive)]

    assert [moved(reply) for reply in replies] == [NOBODY] * 3
    assert [reply.spared for reply in replies] == [3, 3, 3]
    drive.advance(GRACE - 0.001)  # the last moment at which they may renew
    assert moved(newcomer()) == NOBODY
    assert all(drive.renew([run], worker=f"w{n}").lost == () for n, run in enumerate(held))
    watch(drive, LEASE - STEP)
    assert [drive.get(run.ref).crash_count for run in held] == [0, 0, 0]


def test_the_dead_come_back_two_thirds_of_a_lease_after_the_gap(
    drive: Driver, newcomer: Newcomer
) -> None:
    held = drive.start("dead")
    drive.advance(3600)

    assert moved(newcomer()) == NOBODY
    replies = watch(drive, GRACE)

    assert [moved(reply) for reply in replies] == [NOBODY] * 3 + [(0, 1, ("dead",))]
    assert [reply.spared for reply in replies] == [1, 1, 1, 0]
    assert drive.get(held.ref).failure is Failure.CRASHED


def test_where_somebody_sweeps_the_dead_are_found_when_their_lease_ends(
    drive: Driver, newcomer: Newcomer
) -> None:
    watch(drive, GRACE)
    drive.start("dead")

    replies = watch(drive, LEASE - STEP)

    assert [(moved(reply), reply.spared) for reply in replies] == [(NOBODY, 0)] * 5
    drive.advance(STEP)
    assert moved(newcomer()) == (0, 1, ("dead",))


def test_a_pause_shorter_than_a_third_of_a_lease_is_no_outage(
    drive: Driver, newcomer: Newcomer
) -> None:
    watch(drive, GRACE)
    drive.start("dead")
    watch(drive, LEASE * 2 / 3)
    drive.advance(LEASE / 3)

    assert newcomer().workers == ("dead",)


def test_who_lives_at_the_end_of_an_outage_has_as_much_time(
    drive: Driver, newcomer: Newcomer
) -> None:
    """Its lease ends right afterwards: it has had no more time to renew than the others."""
    watch(drive, GRACE)
    held = drive.start()
    drive.advance(LEASE - 0.001)
    assert newcomer().spared == 0

    drive.advance(0.001)

    assert (moved(look(drive)), look(drive).spared) == (NOBODY, 1)
    assert drive.renew([held]).lost == ()


def test_outages_one_after_another_are_none_of_their_fault(
    drive: Driver, newcomer: Newcomer
) -> None:
    """A server that crashes whenever it is back: each time somebody sweeps, and nobody renews."""
    held = drive.start()
    for _ in range(20):
        drive.advance(LEASE)
        assert moved(newcomer()) == NOBODY
    assert drive.renew([held]).lost == ()


def test_each_has_two_thirds_of_its_own_lease(drive: Driver) -> None:
    for worker, lease in (("short", 3.0), ("long", 300.0)):
        drive.register(worker, lease)
    watch(drive, STEP)
    drive.advance(1000)
    look(drive)

    for _ in range(3):
        drive.advance(0.5)
        assert look(drive).workers == ()
    drive.advance(0.5)
    assert look(drive).workers == ("short",)
    for _ in range(39):
        drive.advance(5)
        assert look(drive).workers == ()
    drive.advance(5)
    assert look(drive).workers == ("long",)


def test_a_short_lease_among_long_ones_keeps_nobody_from_being_reaped(drive: Driver) -> None:
    """Whoever sweeps once a second is not there often enough for it: a gap each time."""
    drive.register("short", 2.0)
    drive.register("long", LEASE)
    found: list[str] = []
    for _ in range(60):
        drive.advance(1)
        found += look(drive, every=1.0).workers
    assert found == ["short", "long"]


def test_whoever_sweeps_seldom_says_so(drive: Driver, newcomer: Newcomer) -> None:
    """Gaps that are usual excuse each worker once; without a word they are outages for ever."""
    drive.start("dead")
    for _ in range(5):
        drive.advance(60)
        assert newcomer().spared == 1
    drive.advance(60)
    assert look(drive, every=60).workers == ("dead",)


def test_whoever_sweeps_seldom_spares_those_whose_lease_ended_since(
    drive: Driver, newcomer: Newcomer
) -> None:
    drive.advance(60)
    look(drive, every=60)
    held = drive.start()
    drive.advance(60)

    assert (moved(look(drive, every=60)), moved(newcomer())) == (NOBODY, NOBODY)
    assert drive.renew([held]).lost == ()


@pytest.mark.parametrize("swept", [True, False])
def test_a_clock_that_was_set_ahead_kills_nobody(
    drive: Driver, newcomer: Newcomer, swept: bool
) -> None:
    if swept:
        watch(drive, GRACE)
    held = drive.start()
    drive.jump(HOUR)

    assert moved(newcomer()) == NOBODY
    assert drive.renew([held]).lost == ()
    watch(drive, LEASE - STEP)
    assert drive.get(held.ref).status is Status.RUNNING


def test_a_clock_that_was_set_back_keeps_nobody_from_being_reaped(
    drive: Driver, newcomer: Newcomer
) -> None:
    watch(drive, GRACE)
    drive.jump(-HOUR)
    newcomer()
    watch(drive, GRACE)
    drive.start("dead")

    replies = watch(drive, LEASE)

    assert [reply.workers for reply in replies] == [()] * 5 + [("dead",)]
    assert all(row["at"] <= drive.now for row in drive.rows("sweeps"))


def test_what_expired_in_an_outage_ends_after_it(drive: Driver, newcomer: Newcomer) -> None:
    watch(drive, GRACE)
    drive.register()
    before, within = drive.add(expires_in=0.5), drive.add(expires_in=60.0)
    drive.advance(STEP)
    drive.sweep(spare=True)  # nobody ends what has expired, but somebody is there
    drive.advance(3600)

    assert newcomer().expired == 1
    assert drive.get(before).failure is Failure.EXPIRED
    replies = watch(drive, GRACE)

    assert [reply.expired for reply in replies] == [0, 0, 0, 1]
    assert drive.get(within).failure is Failure.EXPIRED


def test_the_first_sweep_of_all_ends_what_has_expired(drive: Driver, newcomer: Newcomer) -> None:
    drive.add(expires_in=1.0)
    drive.advance(2)

    assert newcomer().expired == 1


def test_sweeps_leave_few_marks(drive: Driver) -> None:
    """However many there are who sweep, and whatever gaps there were."""
    drive.register()
    for number in range(200):
        drive.advance(0.1 if number % 20 else LEASE)
        look(drive)
        drive.renew()
    assert len(drive.rows("sweeps")) <= 3

    drive.advance(LEASE / 12)
    look(drive)
    before = drive.rows("sweeps")
    drive.advance(LEASE / 12 - 0.1)
    look(drive)
    assert drive.rows("sweeps") == before


@requires("server")
def test_a_sweep_that_is_not_committed_holds_nobody_up(drive: Driver, place: Place) -> None:
    assert isinstance(place, PostgresPlace)
    watch(drive, GRACE)
    drive.start("dead")
    with psycopg.connect(place.url) as other:
        other.execute("select set_config('windlass.fake_now', %s, true)", [drive.now.isoformat()])
        other.execute("select windlass.sweep()")

        replies = watch(drive, LEASE)

    assert replies[-1].workers == ("dead",)


SET_ON_EVENT = """
create function windlass.set_the_clock() returns trigger language plpgsql as $$
begin
  perform set_config('windlass.fake_now', (clock_timestamp() + interval '1 hour')::text, true);
  return new;
end
$$;
create trigger set_the_clock after insert on windlass.event_rows
   for each row execute function windlass.set_the_clock()
"""


def test_time_that_passes_during_a_sweep_is_no_crash(own_client: Client) -> None:
    """It waits for a lock, or the clock is set: death is judged by the instant it began."""
    expired = own_client.value("select id from windlass.enqueue('greet', p_expires_in => 0)")
    own_client.all("select windlass.register('w', 60)")
    held = own_client.value("select id from windlass.enqueue('greet')")
    own_client.all("select * from windlass.claim('w', 1, 1, '{greet}')")
    own_client.all("select windlass.sweep(p_expire => false)")
    own_client.all("update windlass.sweeps set gap_from = null")
    own_client.all(SET_ON_EVENT)  # the first run to end says so, and an hour has passed

    swept = own_client.value("select windlass.sweep()")

    assert (swept["expired"], swept["reaped"], swept["spared"]) == (1, 0, 0)
    assert (own_client.status(held), own_client.status(expired)) == ("running", "failed")


def test_sweeping_by_sql_alone_spares_by_default(client: Client) -> None:
    client.all("select windlass.register(%s, 30)", WORKER)
    held = client.value("select id from windlass.enqueue('greet')")
    client.all("select * from windlass.claim(%s, 1, 1, '{greet}')", WORKER)
    client.all("select windlass.sweep()")
    client.all(  # an outage of an hour
        "update windlass.workers set renewed_at = renewed_at - interval '1 h',"
        " alive_until = alive_until - interval '1 h';"
        "update windlass.sweeps set at = at - interval '1 h'"
    )

    first = client.value("select windlass.sweep(p_max_crashes => 1)")
    assert (first["reaped"], first["crashed"], first["spared"]) == (0, 0, 1)
    client.all("update windlass.sweeps set at = at - interval '19 s'")
    client.all("insert into windlass.sweeps values (now())")  # and others went on to sweep
    second = client.value("select windlass.sweep(p_max_crashes => 1)")
    assert (second["crashed"], second["spared"], client.status(held)) == (0, 1, "running")
    client.all("update windlass.sweeps set at = at - interval '1.1 s' where gap_from is not null")
    assert client.value("select windlass.sweep(p_max_crashes => 1)")["crashed"] == 1


def test_who_knows_better_spares_nobody(client: Client) -> None:
    client.all("select windlass.register('w', 1)")
    client.all("update windlass.workers set alive_until = now()")

    assert client.value("select windlass.sweep()")["spared"] == 1
    assert client.value("select windlass.sweep(p_spare => false)")["workers"] == ["w"]
