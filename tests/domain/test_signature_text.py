"""Signatures of handlers whose annotations are text, and may name what is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from windlass.domain.signature import Signature
from windlass.errors import BadArguments

if TYPE_CHECKING:
    import decimal

    import windlass_stub as wl  # type: ignore[import-not-found]
    from windlass_stub import Context, SyncContext


class Order:
    """Not a type that msgspec knows."""


def of(handler: Any) -> Signature:
    return Signature.of(handler, job="send")


def test_context_is_found_by_a_name_that_cannot_be_resolved() -> None:
    def plain(c: Context, a: int) -> None: ...
    def dotted(c: wl.SyncContext, a: int) -> None: ...
    def generic(c: Context[int, wl.x], a: int) -> None: ...
    async def sync(c: SyncContext, a: int) -> None: ...

    for handler in (plain, dotted, generic, sync):
        assert of(handler).takes_context
        assert of(handler).positional == ("a",)


def test_other_unresolvable_names_are_no_context_and_unchecked() -> None:
    def handler(c: decimal.Contextual, d: MyContext, a: int, b: Order) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    signature = of(handler)
    assert not signature.takes_context
    assert signature.decode(signature.encode((1, "x", 3, {}), {})) == ((1, "x", 3, {}), {})


def test_one_unresolvable_annotation_leaves_the_others_checked() -> None:
    def handler(c: Context, a: int, b: decimal.Absent, d: list[str]) -> None: ...  # type: ignore[name-defined]

    with pytest.raises(BadArguments, match="wrong a"):
        of(handler).encode(("x", 1, []), {})
    with pytest.raises(BadArguments, match=r"wrong d\[0\]"):
        of(handler).encode((1, 1, [1]), {})


@pytest.mark.parametrize("text", ["1 +", "int[", "1", "1/0 if False else absent", "x.y.z"])
def test_annotations_that_are_no_types_are_ignored(text: str) -> None:
    def handler(a: Any) -> None: ...

    handler.__annotations__["a"] = text
    assert of(handler).decode(b'{"a":[1]}') == (([1],), {})
