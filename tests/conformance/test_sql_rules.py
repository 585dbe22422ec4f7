"""The rules of a run's life in PostgreSQL are those of the domain, every single one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import psycopg
import pytest

from windlass.domain.blame import after_lost_worker
from windlass.domain.event import EFFECTS
from windlass.domain.outcome import Outcome, reported
from windlass.domain.states import TRANSITIONS, Failure, Intent, Status, Verb, under_intent

Ask = Callable[..., object]
UNKNOWN = "of a newer release"


@pytest.fixture
def ask(pg_database: str) -> Iterator[Ask]:
    """Calls a function of the schema."""
    with psycopg.connect(pg_database, autocommit=True) as conn:

        def call(function: str, *arguments: object) -> object:
            marks = ", ".join(["%s"] * len(arguments))
            query = f"select windlass.{function}({marks})".encode()
            row = conn.execute(query, arguments).fetchone()
            assert row is not None
            return row[0]

        yield call


def test_every_status_follows_alike(ask: Ask) -> None:
    for status, verb in product(Status, Verb):
        assert ask("next_status", status, verb) == TRANSITIONS[status].get(verb), (status, verb)
    assert ask("next_status", UNKNOWN, Verb.CANCEL) is None
    assert ask("next_status", Status.QUEUED, UNKNOWN) is None


def test_every_intent_weighs_alike(ask: Ask) -> None:
    for verb, intent in product(Verb, (None, Intent.CANCEL, Intent.OTHER)):
        assert ask("under_intent", verb, intent) == under_intent(verb, intent), (verb, intent)


@pytest.mark.parametrize("part", ["event", "attempt", "failure", "wait"])
def test_every_verb_is_recorded_alike(ask: Ask, part: str) -> None:
    assert set(EFFECTS) == set(Verb)
    for verb, effect in EFFECTS.items():
        assert ask(f"{part}_of", verb) == getattr(effect, part), verb


def test_every_report_means_the_same(ask: Ask) -> None:
    for outcome, failure in product(Outcome, (None, *Failure)):
        assert ask("verb_of", outcome, failure) == reported(outcome, failure), (outcome, failure)


def test_runs_are_given_up_at_the_same_crash(ask: Ask) -> None:
    for most, alone in product(range(1, 5), (True, False)):
        limit = ask("crash_limit", most, alone)
        verbs = [after_lost_worker(n, alone=alone, max_crashes=most) for n in range(1, 60)]
        assert verbs.index(Verb.CRASH) + 1 == limit
