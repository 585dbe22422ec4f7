"""Signatures of handlers whose annotations are text, and may name what is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from windlass.domain.signature import Signature
from windlass.errors import BadArguments, BadOption

if TYPE_CHECKING:
    import decimal

    import windlass_stub as wl  # type: ignore[import-not-found]
    from windlass_stub import Context, SyncContext


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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("decimal.Decimal", "the name decimal is not defined here"),
        ("list[Absent]", "the name Absent is not defined here"),
        ("1 +", "1 + is not a type"),
        ("int[", "int[ is not a type"),
        ("1", "1 cannot be read from JSON"),
    ],
)
def test_annotation_that_cannot_be_evaluated_is_refused(text: str, why: str) -> None:
    def handler(c: Context, a: Any) -> None: ...

    handler.__annotations__["a"] = text
    with pytest.raises(BadOption) as caught:
        of(handler)
    assert f"job 'send' cannot check its argument a: {why}" in str(caught.value)
    assert str(caught.value).endswith(", or annotate it with Any.")


def test_refusal_says_what_to_do_about_a_missing_name() -> None:
    def handler(a: decimal.Decimal) -> None: ...

    with pytest.raises(
        BadOption, match="import it outside `if TYPE_CHECKING:`, or define it before"
    ):
        of(handler)


def test_names_of_the_function_around_are_known() -> None:
    class Local(msgspec.Struct):
        n: int

    def handler(a: Local) -> Local:
        return a

    assert of(handler).decode(b'{"a":{"n":1}}') == ((Local(1),), {})
    with pytest.raises(BadArguments, match=r"wrong a\.n"):
        of(handler).encode(({"n": "x"},), {})
