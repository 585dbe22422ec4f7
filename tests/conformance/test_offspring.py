"""The checker of children finds what is wrong: each rule is broken once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.offspring import child_violations

Rows = dict[str, list[dict[str, Any]]]


def family() -> Rows:
    """A parent that waits for two children, of which one has ended and one is held."""
    return {
        "runs": [
            {"tenant": "t", "id": "parent", "status": None, "links": 2},
            {"tenant": "t", "id": "one", "status": "succeeded", "links": 1},
            {"tenant": "t", "id": "two", "status": None, "links": 1},
        ],
        "timers": [
            {"tenant": "t", "id": "parent", "why": "wait", "waits": '["kids"]'},
            {"tenant": "t", "id": "two", "why": "held", "waits": None},
        ],
        "steps": [
            {"tenant": "t", "run": "parent", "generation": 0, "path": "kids", "kind": "children",
             "state": "waiting"},
        ],
        "children": [
            {"tenant": "t", "id": "one", "parent": "parent", "generation": 0, "path": "kids",
             "n": 0, "state": "ended"},
            {"tenant": "t", "id": "two", "parent": "parent", "generation": 0, "path": "kids",
             "n": 1, "state": "held"},
        ],
        "wakes": [],
    }  # fmt: skip


def ended(rows: Rows) -> None:
    """Both have ended, and nobody will look."""
    rows["runs"][2]["status"] = rows["runs"][1]["status"]
    rows["children"][1]["state"] = "ended"
    del rows["timers"][1]


BROKEN: dict[str, Callable[[Rows], object]] = {
    "lives, and is ended": lambda rows: rows["runs"][1].update(status=None),
    "ended, and lives": lambda rows: rows["runs"][2].update(status="failed"),
    "held by nothing": lambda rows: rows["timers"][1].update(why="delay"),
    "no links": lambda rows: rows["runs"][1].update(links=None),
    "done too early": lambda rows: rows["steps"][0].update(state="done"),
    "two of one": lambda rows: rows["steps"][0].update(kind="child"),
    "a lost parent": ended,
}


def problems(rows: Rows) -> list[str]:
    return list(child_violations(**rows))


def test_nothing_is_wrong_with_a_family() -> None:
    assert problems(family()) == []
    woken = family()
    ended(woken)
    woken["wakes"].append({"tenant": "t", "run": "parent"})
    assert problems(woken) == [], "a wake says that somebody will look"


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_wrong_is_found(how: str) -> None:
    rows = family()
    BROKEN[how](rows)
    assert len(problems(rows)) == 1, problems(rows)
    assert "(I22)" in problems(rows)[0]
