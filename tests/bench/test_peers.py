"""The race of the peers: its arithmetic, its table and chart, and how it reports failures."""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.peers import environments
from bench.peers.catalogue import PROGRAMS, Entry, Peer, Unavailable, read_catalogue
from bench.peers.chart import chart
from bench.peers.environments import Environment, install, reason
from bench.peers.processes import ask
from bench.peers.programs.kit import WARM_UP, Stamps, payload
from bench.peers.race import race
from bench.peers.results import Figures, Line, Results
from bench.peers.stores import Missing
from bench.peers.table import table

HERE = Environment(command=(), folder=Path(), variables={}, packages=("some==1",))


def line(name: str, *rounds: Figures | None, store: str = "PostgreSQL 18") -> Line:
    peer = Peer(name=name, program=f"{name}.py", stores=("postgres",))
    return Line(Entry(peer=peer, store=store), 1000, list(rounds))


def figures(drain: float, p50: float = 2.0, bulk: float | None = 500.0) -> Figures:
    return Figures(drain=drain, bulk=bulk, single=50.0, p50=p50, p99=2 * p50)


def test_median_is_taken_over_the_rounds_that_have_the_figure() -> None:
    ours = line("Windlass", figures(100), None, figures(400), figures(200, bulk=None))

    assert ours.median("drain") == 200
    assert ours.median("bulk") == 500
    assert line("huey", figures(1, bulk=None)).median("bulk") is None


def test_ratio_is_taken_within_each_round() -> None:
    # The machine was three times as fast in the second round. The medians say 2.5x, no round does.
    ours = line("Windlass", figures(100), figures(300), figures(200))
    theirs = line("pgqueuer", figures(50), figures(150), figures(20))

    ratio = Results([ours, theirs]).ratio(theirs, "drain")

    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (2, 2, 10)


def test_ratio_leaves_out_a_round_that_one_of_both_did_not_finish() -> None:
    ours = line("Windlass", None, figures(300))
    theirs = line("pgqueuer", figures(50), figures(100))

    ratio = Results([ours, theirs]).ratio(theirs, "drain")

    assert ratio is not None
    assert ratio.median == 3


def test_ratio_is_above_one_where_windlass_is_quicker() -> None:
    ours, theirs = line("Windlass", figures(1, p50=2)), line("dbos", figures(1, p50=20))

    ratio = Results([ours, theirs]).ratio(theirs, "p50")

    assert ratio is not None
    assert ratio.median == 10


def test_peer_is_compared_with_windlass_on_its_own_store() -> None:
    postgres, sqlite = line("Windlass", figures(100)), line("Windlass", figures(80), store="SQLite")
    huey, celery = (
        line("huey", figures(10), store="SQLite"),
        line("celery", figures(10), store="Redis"),
    )
    results = Results([postgres, sqlite, huey, celery])

    assert results.ours(huey) is sqlite
    assert results.ours(celery) is postgres
    assert results.ratio(sqlite, "drain") is None


def test_peer_that_cannot_be_installed_is_reported_and_the_others_race() -> None:
    lines = [line("Windlass", None), line("pgqueuer", None), line("awa", None)]

    def refuse(peer: Peer) -> Environment:
        if peer.name == "awa":
            raise Unavailable("cannot be installed: ERROR: No matching distribution found")
        return HERE

    race(lines, refuse, lambda line, _: figures(100), 1, lambda _: None)

    results = Results(lines)
    assert [each.median("drain") for each in lines] == [100, 100, None]
    for report in (table(results), chart(results), json.dumps(results.to_json())):
        assert "No matching distribution found" in report
    assert "awa on PostgreSQL 18 did not race: cannot be installed" in table(results)


def test_failed_installation_names_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*command: str) -> str:
        raise Unavailable(f"cannot be installed: {reason(output)}")

    output = "Collecting x\nERROR: Could not find a version\nsome advice\n"
    monkeypatch.setattr(environments, "_install_python", lambda *_: fail())
    peer = Peer(name="x", program="x.py", stores=("redis",), python=("x==1",))

    with pytest.raises(Unavailable, match="ERROR: Could not find a version"):
        install(peer, tmp_path)
    assert not (tmp_path / "x" / "installed.json").exists()


def test_program_that_is_not_there_is_reported() -> None:
    with pytest.raises(Unavailable, match="cannot be installed"):
        environments._run("/nowhere/pip", "install")


def test_peer_that_fails_keeps_its_earlier_rounds_and_is_asked_no_more() -> None:
    asked: list[str] = []
    lines = [line("Windlass", None, None, None), line("rq", None, None, None, store="Redis")]

    def measure(line: Line, environment: Environment) -> Figures:
        asked.append(line.entry.peer.name)
        if asked.count("rq") == 2 and asked[-1] == "rq":
            raise Unavailable("drain: 3 of 1000 runs did not start exactly once")
        return figures(7)

    race(lines, lambda _: HERE, measure, 3, lambda _: None)

    assert asked == ["Windlass", "rq", "rq", "Windlass", "Windlass"]
    assert lines[1].rounds[0] == figures(7)
    assert "rq on Redis stopped after 1 of 3 rounds: drain: 3 of 1000" in table(Results(lines))


def test_missing_store_says_what_to_install() -> None:
    place = Missing("redis", "Redis", "needs redis-server on the PATH")

    with pytest.raises(Unavailable, match="redis-server"), place.fresh():
        pass


def test_answer_of_a_program_that_dies_is_its_error(tmp_path: Path) -> None:
    code = "import sys; print('{\"race\": 1, half'); print('noise'); sys.exit('no such table')"
    environment = Environment(command=(sys.executable, "-c", code), folder=tmp_path, variables={})

    with pytest.raises(Unavailable, match="bulk: no such table"):
        ask(environment, tmp_path, "enqueued", 30, do="bulk")


def test_stamps_count_every_start(tmp_path: Path) -> None:
    stamps = Stamps.create(tmp_path / "stamps", 3)
    another = Stamps(tmp_path / "stamps")

    another.stamp(0)
    another.stamp(2)
    another.stamp(2)

    assert list(stamps.counts()) == [1, 0, 2]
    assert 0 < stamps.times()[0] < stamps.times()[2]
    assert stamps.times()[1] == 0


def test_chart_is_well_formed_and_draws_the_best_on_top() -> None:
    lines = [line("Windlass", figures(100)), line("a<b", figures(300, bulk=None)), line("c", None)]
    lines[2].failure = "it <broke>"

    drawn = ET.fromstring(chart(Results(lines)))

    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.index("a<b") < texts.index("Windlass")
    assert "has no such call" in texts
    assert "c on PostgreSQL 18 did not race: it <broke>" in texts


def test_table_has_a_dash_for_a_call_that_a_peer_does_not_have() -> None:
    lines = [line("Windlass", figures(1234)), line("huey", figures(100, bulk=None))]

    head, ours, theirs = table(Results(lines)).splitlines()

    assert head.split()[:3] == ["store", "drain", "/s"]
    assert ours.split()[:4] == ["Windlass", "PostgreSQL", "18", "1,234"]
    assert theirs.split()[:6] == ["huey", "PostgreSQL", "18", "100", "12x", "-"]


def test_drain_of_less_than_ten_fetches_is_marked() -> None:
    peer = Peer(name="chancy", program="chancy.py", stores=("postgres",), fetch=101)
    lines = [line("Windlass", figures(5)), Line(Entry(peer=peer, store="PG"), 1000, [figures(7)])]

    _, ours, theirs, note = table(Results(lines)).splitlines()

    assert "*" not in ours
    assert "7*" in theirs
    assert note.startswith("* too few runs")
    assert ">7*<" in chart(Results(lines))


def test_catalogue_pins_every_package_and_names_programs_that_exist() -> None:
    for peer in read_catalogue():
        assert (PROGRAMS / peer.program).exists()
        assert all("==" in package for package in peer.python)
        assert all("@" in package for package in peer.node)


def test_payload_is_about_a_hundred_bytes() -> None:
    assert 90 <= len(json.dumps(payload(20_000))) <= 120
    assert WARM_UP < 100
