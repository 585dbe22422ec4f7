"""The page on performance: its tables come from the measured files, and nothing else changes."""

from typing import Any

from bench.publish import publish

BENCH: dict[str, Any] = {
    "day": "2026-01-02", "machine": "Linux, 2 cores", "python": "3.12.1",
    "figures": [
        {"store": store, "what": what, "value": value, "unit": unit, "ratio": ratio, "note": note}
        for store, what, value, unit, ratio, note in [
            ("SQLite", "drain, one worker", 30_000.4, "/s", 0.5, ""),
            ("PostgreSQL 15", "drain, one worker", 99.5, "/s", 0.75, ""),
            ("PostgreSQL 15", "drain, beside a held snapshot", 90.0, "/s", None, "0.91x of 99"),
            ("SQLite", "pickup, two processes, p50", 1.25, "ms", None, "claim sent after 0.9"),
        ]
    ],
}  # fmt: skip
RACE: dict[str, Any] = {
    "day": "2026-01-03", "machine": "Linux, 2 cores", "python": "3.12.1",
    "entries": [
        {
            "name": "Windlass", "store": "SQLite", "too_few_runs": False, "failure": None,
            "median": {"drain": 900.0, "bulk": 500.0, "single": 50.0, "p50": 1.0, "p99": 2.0},
            "windlass_ahead": {},
        },
        {
            "name": "huey", "store": "SQLite", "too_few_runs": True, "failure": None,
            "median": {"drain": 60.0, "bulk": None, "single": 40.0, "p50": 3.0, "p99": 4.0},
            "windlass_ahead": {"drain": {"median": 15.2}, "single": {"median": 1.25}},
        },
        {
            "name": "absent", "store": "SQLite", "too_few_runs": False, "failure": "not installed",
            "median": dict.fromkeys(("drain", "bulk", "single", "p50", "p99")),
            "windlass_ahead": {},
        },
    ],
}  # fmt: skip


def page(*names: str) -> str:
    marks = "".join(f"<!-- begin: {name} -->\nold\n<!-- end -->\nkept\n" for name in names)
    return f"# Title\n{marks}"


def test_a_figure_has_a_column_for_each_store_and_its_share_of_raw() -> None:
    made = publish(page("rates"), BENCH, RACE)

    assert "| | PostgreSQL 15 | SQLite |" in made
    assert "| drain, one worker process | 99.5/s, 75% of raw | 30,000/s, 50% of raw |" in made
    assert "| drain, beside a held snapshot | 90/s, 0.91x | - |" in made
    assert "old" not in made
    assert made.startswith("# Title\n")
    assert made.endswith("kept\n")


def test_peers_have_how_far_they_are_behind_and_failures_are_told() -> None:
    made = publish(page("race"), BENCH, RACE)

    assert "| Windlass | SQLite | 900 | 500 | 50 | 1 | 2 |" in made
    assert "| huey | SQLite | 60\\* (15x) | - | 40 (1.2x) | 3 | 4 |" in made
    assert "absent on SQLite: not installed" in made


def test_the_stages_of_a_pickup_are_listed_and_the_machine_is_named() -> None:
    made = publish(page("stages", "race-about"), BENCH, RACE)

    assert "- SQLite, two processes: claim sent after 0.9 ms." in made
    assert "Measured on 2026-01-03: Linux, 2 cores, Python 3.12.1." in made


def test_it_changes_nothing_the_second_time() -> None:
    once = publish(page("rates", "race", "stages"), BENCH, RACE)

    assert publish(once, BENCH, RACE) == once
