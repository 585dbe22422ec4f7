"""The checker of followers finds what is wrong: each rule is broken once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.following import follower_violations

Rows = dict[str, list[dict[str, Any]]]


def row_of_runs() -> Rows:
    """A run that comes after two others, of which one has ended and one is marked."""
    return {
        "runs": [
            {"tenant": "t", "id": "one", "status": "succeeded", "links": None},
            {"tenant": "t", "id": "two", "status": None, "links": 4},
            {"tenant": "t", "id": "last", "status": None, "links": 8},
        ],
        "timers": [{"tenant": "t", "id": "last", "why": "held"}],
        "follows": [
            {"tenant": "t", "id": "last", "awaited": "one", "mode": "cancel",
             "outcome": "succeeded"},
            {"tenant": "t", "id": "last", "awaited": "two", "mode": "cancel", "outcome": None},
        ],
        "wakes": [],
    }  # fmt: skip


BROKEN: dict[str, Callable[[Rows], object]] = {
    "no mark on the follower": lambda rows: rows["runs"][2].update(links=None),
    "no mark on the awaited": lambda rows: rows["runs"][1].update(links=None),
    "an end that nobody noted": lambda rows: rows["runs"][1].update(status="failed"),
    "nothing to wait for": lambda rows: rows["follows"][1].update(outcome="succeeded"),
    "a failure without an effect": lambda rows: rows["follows"][0].update(outcome="failed"),
}


def test_nothing_is_wrong_with_a_row_of_runs() -> None:
    assert list(follower_violations(**row_of_runs())) == []


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_wrong_is_found(how: str) -> None:
    rows = row_of_runs()
    BROKEN[how](rows)
    assert len(list(follower_violations(**rows))) == 1


@pytest.mark.parametrize("how", [how for how in BROKEN if "follower" not in how])
def test_a_wake_says_that_somebody_will_look(how: str) -> None:
    rows = row_of_runs()
    BROKEN[how](rows)
    rows["wakes"].append({"tenant": "t", "run": "last"})
    assert list(follower_violations(**rows)) == []
