"""Results of the handler's type, what a job shows of its function, and who made a run."""

from __future__ import annotations

import functools
import inspect
import pydoc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from windlass import ResultMismatch, Snooze, SyncContext, Windlass
from windlass.testing import adrain, drain, inline, isolated


@dataclass
class Receipt:
    number: int
    file: Path


@pytest.fixture
def shop() -> Any:
    app = Windlass("sqlite:///never.db")
    with isolated(app):
        yield app


def test_result_is_of_the_annotated_type(shop: Windlass) -> None:
    @shop.job
    def pay(number: int, file: Path) -> Receipt | Snooze:
        assert isinstance(file, Path)
        return Receipt(number, file)

    run, (many,) = pay.enqueue(7, Path("a.pdf")), shop.enqueue_many([pay.request(8, Path("b.pdf"))])
    waiting: Any = run.result
    assert waiting is None
    drain(shop)
    assert shop.result(run) == Receipt(7, Path("a.pdf"))
    assert run.result == Receipt(7, Path("a.pdf"))
    assert many.wait().result == Receipt(8, Path("b.pdf"))
    assert run.raw_result == run.to_dict()["result"] == {"number": 7, "file": "a.pdf"}


async def test_async_twins_decode_too(shop: Windlass) -> None:
    @shop.job
    async def pay(number: int) -> Receipt:
        return Receipt(number, Path("a.pdf"))

    run = await pay.using(priority=3).aenqueue(7)
    await adrain(shop)
    assert await shop.aresult(run) == Receipt(7, Path("a.pdf"))
    assert (await run.await_end()).result == Receipt(7, Path("a.pdf"))


def test_by_name_and_by_id_results_are_plain(shop: Windlass) -> None:
    @shop.job
    def pay(number: int) -> Receipt:
        return Receipt(number, Path("a.pdf"))

    plain = {"number": 7, "file": "a.pdf"}
    run = shop.enqueue("pay", {"number": 7})
    (pair,) = shop.enqueue_many([("pay", {"number": 7})])
    typed = pay.enqueue(7)
    drain(shop)
    assert shop.result(run) == pair.refresh().result == plain
    assert shop.result(typed.id) == shop.get(typed.id).result == plain


def test_without_a_return_annotation_results_are_plain(shop: Windlass) -> None:
    def pay(number: int):  # type: ignore[no-untyped-def]
        return Receipt(number, Path("a.pdf"))

    run = shop.job(pay).enqueue(7)
    drain(shop)
    assert shop.result(run) == {"number": 7, "file": "a.pdf"}


def test_result_that_does_not_fit_is_an_error_and_can_be_read(shop: Windlass) -> None:
    @shop.job
    def count() -> int:
        return "many"  # type: ignore[return-value]

    run = count.enqueue()
    drain(shop)
    with pytest.raises(ResultMismatch, match="expected `int`, got `str`") as caught:
        shop.result(run)
    assert (caught.value.run, caught.value.job) == (run.id, "count")
    assert run.refresh().status == "succeeded"
    assert run.raw_result == run.to_dict()["result"] == shop.result(run.id) == "many"


def test_inline_runs_keep_their_type(shop: Windlass) -> None:
    @shop.job
    def pay(number: int) -> Receipt:
        return Receipt(number, Path("a.pdf"))

    with inline(shop):
        run = pay.enqueue(7)
    assert run.result == Receipt(7, Path("a.pdf"))
    assert run.created


def test_run_knows_whether_this_call_made_it(shop: Windlass) -> None:
    @shop.job
    def pay(number: int) -> None: ...

    first, again = pay.using(key="k").enqueue(1), pay.using(key="k").enqueue(1)
    assert (first.created, again.created) == (True, False)
    assert first.id == again.id
    assert first.refresh().created
    assert shop.get(first.id).created is None
    assert [run.created for run in shop.list()] == [None]
    made = shop.enqueue_many([pay.using(key="k").request(1), pay.request(2)])
    assert [run.created for run in made] == [False, True]
    assert shop.enqueue("pay", {"number": 1}, key="k").created is False
    with shop.transaction() as tx:
        assert pay.using(key="k", connection=tx).enqueue(1).created is False


def test_job_shows_its_function(shop: Windlass) -> None:
    @shop.job(name="billing.pay")
    def pay(ctx: SyncContext, number: int, *, fast: bool = False) -> None:
        """Pay a bill."""

    jobs: list[Any] = [pay, pay.using(priority=3)]
    for job in jobs:
        assert (job.__name__, job.name) == ("pay", "billing.pay")
        assert job.__doc__ == "Pay a bill."
        assert job.__module__ == __name__
        assert job.__qualname__.endswith(".pay")
        assert list(inspect.signature(job).parameters) == ["ctx", "number", "fast"]
        assert inspect.unwrap(job) is pay.spec.handler
        assert "Pay a bill." in pydoc.render_doc(job)


def test_job_of_a_partial_has_the_docstring_of_its_function(shop: Windlass) -> None:
    def pay(number: int, fast: bool) -> None:
        """Pay a bill."""

    job: Any = shop.job(name="pay_fast")(functools.partial(pay, fast=True))
    assert (job.__name__, job.__doc__) == ("pay_fast", "Pay a bill.")
