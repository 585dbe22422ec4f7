"""A foreign session leaves a transaction open: vacuum is held back, claims are not (F33)."""

from __future__ import annotations

from datetime import datetime
from statistics import median

import psycopg
import pytest

from tests.doctor.kit import checkup, of
from tests.faults.harness import Fleet, Stage, rest
from windlass.domain.checkup import Severity

RATE = 50
FACTOR = 2.0
JITTER = 0.1  # seconds that a busy machine may add to a median


def test_claims_stay_quick_beside_a_forgotten_transaction(
    postgres_stage: Stage, fleet: Fleet
) -> None:
    """F33, the short form."""
    compare(postgres_stage, fleet, seconds=2)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_claims_stay_quick_beside_a_transaction_of_a_minute(
    postgres_stage: Stage, fleet: Fleet
) -> None:
    """F33, the long form."""
    compare(postgres_stage, fleet, seconds=60)


def compare(stage: Stage, fleet: Fleet, *, seconds: int) -> None:
    fleet.ready_worker()
    usual = latency(stage, load(stage, 2)[-RATE:])
    with psycopg.connect(stage.url, application_name="forgotten") as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select txid_current(), count(*) from windlass.runs")  # a snapshot, and an id
        beside = latency(stage, load(stage, seconds)[-RATE:])
        found = of(checkup(stage.url, transaction=seconds / 2), "transactions")
        conn.rollback()

    assert beside < usual * FACTOR + JITTER
    (told,) = [finding for finding in found if "(forgotten)" in finding.text]
    assert told.severity is Severity.WARNING
    stage.check()


def load(stage: Stage, seconds: int) -> list[str]:
    """Enqueue at an even rate for so long, and wait for the end of all."""
    runs = []
    for n in range(RATE * seconds):
        runs.append(stage.app.enqueue("load", {"n": n, "ms": 1}).id)
        rest(1 / RATE)
    stage.quiet()
    return runs


def latency(stage: Stage, runs: list[str]) -> float:
    """How long they waited for a worker, in the middle, in seconds."""
    made: dict[str, datetime] = {str(row["id"]): row["created_at"] for row in stage.rows("runs")}
    begun: dict[str, datetime] = {
        str(row["run"]): row["started_at"] for row in stage.rows("attempts")
    }
    return median((begun[run] - made[run]).total_seconds() for run in runs)
