"""A damaged file: what a read meets is raised and never left out, and the doctor finds the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from tests.doctor.kit import bad, checkup, make_app, only
from windlass import RunNotFound, StoreError, Windlass
from windlass.client.filters import ListOptions
from windlass.domain.checkup import Severity
from windlass.store.sqlite.connection import configure

RUNS = 400


class Cell(NamedTuple):
    """A cell of a leaf of a b-tree: where its two bytes of address are, and its content."""

    pointer: int
    content: int


class Leaf:
    """A leaf page of one tree in the bytes of a file."""

    def __init__(self, data: bytearray, start: int, header: int) -> None:
        self.start = start
        self._data = data
        self._header = header

    @property
    def count(self) -> int:
        """Where the number of its cells is."""
        return self.start + 3

    def cell(self, number: int) -> Cell:
        """One of its cells."""
        pointer = self.start + self._header + 2 * number
        return Cell(pointer, self.start + int.from_bytes(self._data[pointer : pointer + 2], "big"))


def leaf_of(path: Path, data: bytearray, tree: str) -> Leaf:
    """The leaf in the middle of a table's or an index's tree."""
    raw = apsw.Connection(str(path))
    size = raw.pragma("page_size")
    pages = [
        number
        for (number,) in raw.execute(
            "select pageno from dbstat where name = ? and pagetype = 'leaf'", (tree,)
        )
    ]
    raw.close()
    return Leaf(data, (pages[len(pages) // 2] - 1) * size, 8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with runs in it, closed."""
    found = tmp_path / "w.db"
    app = make_app(f"sqlite:///{found}")
    app.enqueue_many([app.jobs["greet"].request(name=f"n{n}") for n in range(RUNS)])
    app.close()
    assert not found.with_name("w.db-wal").exists()
    return found


def flip(path: Path, tree: str, place: Callable[[Leaf], int], bit: int | None) -> None:
    """Turn one bit of the file; without one, the largest that is set, so that a number shrinks."""
    data = bytearray(path.read_bytes())
    at = place(leaf_of(path, data, tree))
    data[at] ^= 1 << (data[at].bit_length() - 1) if bit is None else bit
    path.write_bytes(data)


def everything(path: Path) -> Sequence[tuple[str, str]]:
    """All runs and their status, read as a user would."""
    app = Windlass(f"sqlite:///{path}")
    try:
        return [(run.id, run.status) for run in app.list(limit=1000)]
    finally:
        app.close()


PLACES = {
    # a pointer that leads elsewhere, a row that is cut, a column that is another's, an index that
    # lost an entry, one that has another key
    "pointer of a row": ("runs", lambda leaf: leaf.cell(2).pointer + 1, 0x04),
    "size of a row": ("runs", lambda leaf: leaf.cell(2).content, 0x40),
    "header of a row": ("runs", lambda leaf: leaf.cell(1).content + 16, 0x04),
    "position of a run": ("ready", lambda leaf: leaf.cell(2).pointer + 1, 0x01),
    "number of positions": ("ready", lambda leaf: leaf.count + 1, None),
    "key of an index": ("ready_by_id", lambda leaf: leaf.cell(2).content + 12, 0x80),
}


@pytest.mark.parametrize("place", PLACES)
def test_listing_of_a_damaged_file_is_never_short(path: Path, place: str) -> None:
    whole = everything(path)
    assert len(whole) == RUNS
    flip(path, *PLACES[place])

    with pytest.raises(StoreError, match="is damaged"):
        everything(path)


@pytest.mark.parametrize("place", PLACES)
def test_doctor_finds_the_damage(path: Path, place: str) -> None:
    flip(path, *PLACES[place])
    url = f"sqlite:///{path}"

    full = only(checkup(url, full=True), "pages")
    quick = only(checkup(url), "pages")

    assert full.severity is Severity.ERROR
    assert f"{path} is damaged: " in full.text
    if place != "key of an index":  # the quick look does not compare indexes with their tables
        assert quick.severity is Severity.ERROR


def test_index_that_lost_its_entries_is_found(path: Path) -> None:
    with_index = apsw.Connection(str(path))
    with_index.execute("pragma writable_schema = on")
    with_index.execute(
        "update sqlite_schema set sql = sql || ' where rank < 0' where name = 'ready_by_id'"
    )
    with_index.close()
    raw = apsw.Connection(str(path))
    raw.execute("reindex ready_by_id; pragma writable_schema = on")
    raw.execute(
        "update sqlite_schema set sql = replace(sql, ' where rank < 0', '')"
        " where name = 'ready_by_id'"
    )
    raw.close()
    url = f"sqlite:///{path}"

    for full in (False, True):
        found = only(checkup(url, full=full), "pages")
        assert found.severity is Severity.ERROR
        assert "ready_by_id" in found.text
    with pytest.raises(StoreError, match="has not ended, and is nowhere"):
        everything(path)


@pytest.mark.parametrize(
    "query", [{"limit": 1000}, {"limit": 1000, "status": "queued"}], ids=["all", "queued"]
)
@pytest.mark.parametrize("instant", [2**62, -(2**62) - 1])
def test_row_whose_time_is_damaged_is_not_left_out(
    path: Path, instant: int, query: ListOptions
) -> None:
    raw = apsw.Connection(str(path))
    raw.execute("update runs set created_at = ? where rowid = 7", (instant,))
    raw.close()
    app = Windlass(f"sqlite:///{path}")

    assert len(app.list(**query)) == RUNS
    app.close()


def test_run_whose_record_is_gone_is_not_left_out(path: Path) -> None:
    raw = apsw.Connection(str(path))
    raw.execute("delete from runs where rowid = 7")
    raw.close()
    app = Windlass(f"sqlite:///{path}")

    with pytest.raises(StoreError, match="1 of 400 listed runs have no record"):
        app.list(limit=1000, status="queued")
    app.close()


def test_text_that_is_no_text_is_damage(path: Path) -> None:
    raw = apsw.Connection(str(path))
    raw.execute("update runs set trace = cast(x'ff' as text) where rowid = 7")
    raw.close()

    with pytest.raises(StoreError, match="text that cannot be read"):
        everything(path)


def test_quick_look_stops_when_its_time_is_over(path: Path) -> None:
    found = only(checkup(f"sqlite:///{path}", look=0.0), "pages")

    assert found.severity is Severity.NOTE
    assert "tables could be looked through" in found.text
    assert "runs" in found.text
    assert "--full" in found.advice


def test_sound_file_is_found_sound(path: Path) -> None:
    for full in (False, True):
        report = checkup(f"sqlite:///{path}", full=full)
        assert only(report, "pages").severity is Severity.OK
        assert [text for text in bad(report) if text.startswith("pages")] == []


def test_row_that_belongs_to_nothing_is_found_by_the_full_look(path: Path) -> None:
    raw = apsw.Connection(str(path))
    raw.execute("create table owners (n integer primary key)")
    raw.execute("create table pets (n integer references owners)")
    raw.execute("insert into pets values (1)")
    raw.close()

    found = only(checkup(f"sqlite:///{path}", full=True), "pages")

    assert found.severity is Severity.ERROR
    assert "pets without owners" in found.text


def test_connections_look_at_the_size_of_cells(path: Path) -> None:
    connection = apsw.Connection(str(path))
    configure(connection, str(path))
    assert connection.pragma("cell_size_check") == 1
    connection.close()


def test_run_that_is_not_there_is_not_taken_for_damage(path: Path) -> None:
    app = Windlass(f"sqlite:///{path}")
    with pytest.raises(RunNotFound):
        app.get("01a1e60d-bb6c-7eef-92d2-9b0e7b9896f6")
    app.close()
