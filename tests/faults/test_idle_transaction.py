"""A foreign session leaves a transaction open: vacuum is held back, claims are not (F33)."""

from __future__ import annotations

import re
from datetime import datetime
from statistics import median

import psycopg
import pytest

from tests.doctor.kit import checkup, of
from tests.faults.harness import Fleet, Stage, eventually, rest
from windlass.domain.checkup import Severity

RATE = 50
FACTOR = 2.0
JITTER = 0.1  # seconds that a busy machine may add to a median


def test_claims_go_on_beside_a_forgotten_transaction(postgres_stage: Stage, fleet: Fleet) -> None:
    """F33, the short form: what a busy machine cannot blur. The long one measures."""
    fleet.ready_worker()
    beside(postgres_stage, seconds=1)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_claims_stay_quick_beside_a_transaction_of_a_minute(
    postgres_stage: Stage, fleet: Fleet
) -> None:
    """F33, the long form."""
    stage = postgres_stage
    fleet.ready_worker()
    usual = latency(stage, load(stage, 2)[-RATE:])
    runs = beside(stage, seconds=60)
    assert latency(stage, runs[-RATE:]) < usual * FACTOR + JITTER


def beside(stage: Stage, *, seconds: int) -> list[str]:
    """Let runs be claimed for so long beside a transaction, which the doctor tells of."""
    with psycopg.connect(stage.url, application_name="forgotten") as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select txid_current(), count(*) from windlass.runs")  # a snapshot, and an id
        runs = load(stage, seconds)
        kept = not_removable(stage.url)
        found = of(checkup(stage.url, transaction=seconds / 2), "transactions")
        conn.rollback()

    assert kept >= len(runs), "vacuum was not held back: the test tests nothing"
    eventually(lambda: not_removable(stage.url) == 0, what="nothing else held it back")
    (told,) = [finding for finding in found if "(forgotten)" in finding.text]
    assert told.severity is Severity.WARNING
    stage.check(acked=runs)
    return runs


def not_removable(url: str) -> int:
    """Vacuum the queue; how many of its dead rows had to stay."""
    told: list[str] = []
    with psycopg.connect(url, autocommit=True) as conn:
        conn.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        conn.execute("vacuum (verbose) windlass.ready")
    found = re.search(r"(\d+) (?:are dead but|dead row versions cannot)", "\n".join(told))
    assert found, told
    return int(found[1])


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
