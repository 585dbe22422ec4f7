"""Artifacts: what is known of bytes that are kept elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.kit import ABSENT, Driver, held_of
from windlass.domain.artifact import Artifact
from windlass.domain.outcome import Outcome
from windlass.domain.run import Held


def make(drive: Driver, **fields: Any) -> Artifact:
    given: dict[str, Any] = {
        "id": drive.sources.new_id(), "name": "report.pdf", "content_type": "application/pdf",
        "size": 2**40, "sha256": "0" * 64, "location": "file:///data/report.pdf",
    }  # fmt: skip
    return Artifact(**(given | fields))


@pytest.mark.both_faces
def test_what_is_put_is_found(drive: Driver) -> None:
    artifact = make(drive, run=drive.add().id, name="Größe \N{SNOWMAN}.pdf")
    stored = drive.call(drive.ops.put_artifact(artifact))

    assert stored.created_at == drive.now
    assert drive.call(drive.ops.get_artifact("default", artifact.id)) == stored
    fields = {name: getattr(stored, name) for name in Artifact.__struct_fields__}
    assert Artifact(**(fields | {"created_at": None})) == artifact


def test_an_id_that_is_known_stays_as_it_is(drive: Driver) -> None:
    first = drive.call(drive.ops.put_artifact(make(drive)))
    drive.advance(5)
    again = drive.call(drive.ops.put_artifact(make(drive, id=first.id, name="other")))

    assert again == first


@pytest.mark.both_faces
def test_what_is_deleted_is_gone(drive: Driver) -> None:
    artifact = drive.call(drive.ops.put_artifact(make(drive)))

    assert drive.call(drive.ops.delete_artifact("default", artifact.id)) is True
    assert drive.call(drive.ops.delete_artifact("default", artifact.id)) is False
    assert drive.call(drive.ops.get_artifact("default", artifact.id)) is None


@pytest.mark.both_faces
def test_a_run_deletes_under_its_lease(drive: Driver) -> None:
    artifact = drive.call(drive.ops.put_artifact(make(drive)))
    other = drive.call(drive.ops.put_artifact(make(drive, tenant="acme")))
    held = held_of(drive.start())

    assert drive.call(drive.ops.delete_artifact_under(held, artifact.id)) is True
    assert drive.call(drive.ops.delete_artifact_under(held, artifact.id)) is False
    assert drive.call(drive.ops.delete_artifact_under(held, other.id)) is False
    assert drive.call(drive.ops.get_artifact("acme", other.id)) == other


@pytest.mark.parametrize(
    "named",
    [
        lambda held: Held(held.tenant, held.id, held.token + 1),
        lambda held: Held(held.tenant, held.id, held.token - 1),
        lambda held: Held("acme", held.id, held.token),
        lambda held: Held(held.tenant, ABSENT, held.token),
        lambda held: Held(held.tenant, "not-an-id", held.token),
    ],
)
def test_a_run_without_its_lease_deletes_nothing(
    drive: Driver, named: Callable[[Held], Held]
) -> None:
    held = held_of(drive.start())
    other = named(held)
    artifact = drive.call(drive.ops.put_artifact(make(drive, tenant=other.tenant)))

    assert drive.call(drive.ops.delete_artifact_under(other, artifact.id)) is None
    assert drive.call(drive.ops.get_artifact(other.tenant, artifact.id)) == artifact


def test_a_run_that_has_ended_deletes_nothing(drive: Driver) -> None:
    run = drive.start()
    artifact = drive.call(drive.ops.put_artifact(make(drive)))
    drive.finish(run, Outcome.SUCCEEDED)

    assert drive.call(drive.ops.delete_artifact_under(held_of(run), artifact.id)) is None
    assert drive.call(drive.ops.get_artifact("default", artifact.id)) == artifact


@pytest.mark.parametrize("named", [ABSENT, "nobody", "", "'", "x" * 10_000])
def test_what_there_is_not(drive: Driver, named: str) -> None:
    assert drive.call(drive.ops.get_artifact("default", named)) is None
    assert drive.call(drive.ops.delete_artifact("default", named)) is False


def test_tenants_do_not_see_each_other(drive: Driver) -> None:
    artifact = drive.call(drive.ops.put_artifact(make(drive, tenant="acme")))

    assert drive.call(drive.ops.get_artifact("default", artifact.id)) is None
    assert drive.call(drive.ops.delete_artifact("default", artifact.id)) is False
    assert drive.call(drive.ops.get_artifact("acme", artifact.id)) == artifact


def names(drive: Driver, run: str, after: str | None = None, limit: int = 10) -> list[str]:
    found = drive.call(drive.ops.list_artifacts("default", run, after, limit))
    return [artifact.name for artifact in found]


@pytest.mark.both_faces
def test_a_run_puts_under_its_lease(drive: Driver) -> None:
    held = held_of(drive.start())
    given = make(drive, name="Zürich.csv")
    put = drive.call(drive.ops.put_artifact_under(held, given))

    assert put.artifact is not None
    assert put.replaced is None
    assert (put.artifact.id, put.artifact.run) == (given.id, held.id)
    assert drive.call(drive.ops.find_artifact("default", held.id, "Zürich.csv")) == put.artifact
    assert drive.call(drive.ops.find_artifact("default", held.id, "zürich.csv")) is None
    assert drive.call(drive.ops.find_artifact("acme", held.id, "Zürich.csv")) is None


def test_the_same_bytes_keep_their_pointer(drive: Driver) -> None:
    held = held_of(drive.start())
    first = drive.call(drive.ops.put_artifact_under(held, make(drive))).artifact

    assert drive.call(drive.ops.put_artifact_under(held, make(drive))).artifact == first


def test_other_bytes_take_the_place_of_a_name(drive: Driver) -> None:
    held = held_of(drive.start())
    first = drive.call(drive.ops.put_artifact_under(held, make(drive))).artifact
    again = drive.call(drive.ops.put_artifact_under(held, make(drive, sha256="1" * 64)))

    assert first is not None
    assert again.replaced == first
    assert drive.call(drive.ops.get_artifact("default", first.id)) is None
    assert drive.call(drive.ops.find_artifact("default", held.id, first.name)) == again.artifact


@pytest.mark.parametrize(
    "named",
    [
        lambda held: Held(held.tenant, held.id, held.token + 1),
        lambda held: Held(held.tenant, held.id, held.token - 1),
        lambda held: Held("acme", held.id, held.token),
        lambda held: Held(held.tenant, ABSENT, held.token),
        lambda held: Held(held.tenant, "not-an-id", held.token),
    ],
)
def test_a_run_without_its_lease_publishes_nothing(
    drive: Driver, named: Callable[[Held], Held]
) -> None:
    held = held_of(drive.start())
    other, given = named(held), make(drive)

    assert drive.call(drive.ops.put_artifact_under(other, given)).artifact is None
    assert drive.call(drive.ops.get_artifact(other.tenant, given.id)) is None
    assert names(drive, held.id) == []


@pytest.mark.both_faces
def test_artifacts_of_a_run_are_listed_by_name_in_pages(drive: Driver) -> None:
    held, other = held_of(drive.start()), held_of(drive.start())
    for name in ("b", "a", "é", "B"):
        drive.call(drive.ops.put_artifact_under(held, make(drive, name=name)))
    drive.call(drive.ops.put_artifact_under(other, make(drive, name="a")))

    assert names(drive, held.id) == ["B", "a", "b", "é"]
    assert names(drive, held.id, after="a", limit=1) == ["b"]
    assert names(drive, ABSENT) == names(drive, "not-an-id") == []


@pytest.mark.both_faces
def test_a_run_is_cleaned_of_its_artifacts(drive: Driver) -> None:
    held, other = held_of(drive.start()), held_of(drive.start())
    for name in ("a", "b", "c"):
        drive.call(drive.ops.put_artifact_under(held, make(drive, name=name)))
    kept = drive.call(drive.ops.put_artifact_under(other, make(drive))).artifact

    some = drive.call(drive.ops.forget_artifacts("default", held.id, 2))
    rest = drive.call(drive.ops.forget_artifacts("default", held.id, 2))
    assert [len(some), len(rest)] == [2, 1]
    assert names(drive, held.id) == []
    assert names(drive, other.id) == ["report.pdf"]
    assert kept is not None
    asked = [kept.id, some[0].id, "not-an-id"]
    assert drive.call(drive.ops.known_artifacts("default", asked)) == [kept.id]
    assert drive.call(drive.ops.known_artifacts("acme", [kept.id])) == []
