"""Operations are declared once; stores and workers find what they need in the declaration."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec
import pytest

from windlass.domain.run import Held
from windlass.errors import UsageError
from windlass.store.operations import Access, Operations, implementations
from windlass.store.operations.declare import declared, read, scan, write
from windlass.store.operations.handlers import (
    make_call,
    pack_answer,
    pack_arguments,
    unpack_answer,
)

HELD = Held("acme", "run", 3)


class Point(msgspec.Struct):
    """Something that travels."""

    x: int


class Some:
    """A few operations."""

    @read()
    def look(self, name: str) -> str: ...

    @scan()
    def search(self, limit: int = 10) -> list[str]: ...

    @write(repeatable=lambda n, *, much: n == 0, patient=True, new_work=True)
    def add(self, n: int, *, much: bool = False) -> int: ...

    @write(urgent=True, for_handlers=True)
    def mark(self, held: Held, point: Point, label: str | None = None) -> Point | None: ...

    @read(for_handlers=True)
    def find(self, tenant: str, label: str) -> bool: ...


def module(name: str, *functions: str) -> ModuleType:
    """A module that has these functions."""
    made = ModuleType(name)
    for function in functions:
        exec(f"def {function}(*arguments): return arguments", made.__dict__)  # noqa: S102
    return made


def test_a_call_carries_its_arguments_and_how_to_run_it() -> None:
    some = Some()
    call = some.add(1)

    assert (call.name, call.arguments, call.keywords) == ("add", (1,), {"much": False})
    assert (call.repeatable, call.patient) == (False, True)
    assert (call.operation.access, call.operation.new_work) == (Access.WRITE, True)
    assert some.add(0, much=True).repeatable is True
    assert some.look("x").operation.access is Access.READ
    assert some.mark(HELD, Point(1)).operation.urgent is True


def test_defaults_are_filled_in_once_and_only_where_none_is_given() -> None:
    some = Some()
    assert (some.search().arguments, some.search().keywords) == ((), {"limit": 10})
    assert (some.search(3).arguments, some.search(3).keywords) == ((3,), {})
    assert some.search(limit=4).keywords == {"limit": 4}


def test_a_call_may_be_made_for_once() -> None:
    call = Some().add(0)
    once = call.once()
    assert (call.repeatable, once.repeatable) == (True, False)
    assert (once.operation, once.arguments, once.patient) == (call.operation, call.arguments, True)


def test_each_operation_needs_one_function() -> None:
    whole = module("whole", "look", "search", "add", "mark")
    with pytest.raises(TypeError, match="0 functions named find"):
        implementations(Some, whole)
    with pytest.raises(TypeError, match="2 functions named look"):
        implementations(Some, whole, module("rest", "find", "look"))

    found = implementations(Some, whole, module("rest", "find"))
    assert {operation.name for operation in found} == {"look", "search", "add", "mark", "find"}
    assert found[Some().look("x").operation]("a") == ("a",)


def test_a_function_that_is_only_imported_is_none_of_a_modules_own() -> None:
    whole = module("whole", "look", "search", "add", "mark", "find")
    other = module("other")
    vars(other)["look"] = vars(whole)["look"]
    implementations(Some, whole, other)


def travelled(some: Some, call: Any) -> Any:
    """A call as the worker makes it of what the child sent."""
    return make_call(some, call.name, HELD, pack_arguments(some, call))


def test_a_handlers_call_arrives_under_the_lease_of_its_worker() -> None:
    some = Some()
    call = travelled(some, some.mark(Held("other", "another run", 9), Point(2), label="x"))
    assert call.arguments == (HELD,)
    assert call.keywords == {"point": Point(2), "label": "x"}
    call = travelled(some, some.find("another tenant", "y"))
    assert (call.arguments, call.keywords) == (("acme",), {"label": "y"})


@pytest.mark.parametrize("answer", [Point(5), None])
def test_an_answer_arrives_as_what_it_was(answer: Point | None) -> None:
    assert unpack_answer(Some(), "mark", pack_answer(answer)) == answer


@pytest.mark.parametrize("name", ["look", "add", "__init__", "nothing"])
def test_a_handler_calls_nothing_else(name: str) -> None:
    with pytest.raises(UsageError, match=f"cannot call {name}"):
        make_call(Some(), name, HELD, msgspec.Raw(b"[]"))


def test_what_handlers_may_call_begins_with_what_the_worker_fills_in() -> None:
    for name, operation in declared(Operations).items():
        if operation.for_handlers:
            method = getattr(Operations, name).__wrapped__
            assert method.__code__.co_varnames[1] in ("held", "tenant"), name
