"""Every annotation is checked, or refused where the job is defined."""

import dataclasses
import ipaddress
import sys
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, NoReturn, TypedDict, Unpack

import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from windlass.domain.outcome import Cancel, Fail, Snooze
from windlass.domain.signature import Signature
from windlass.errors import BadArguments, BadOption, ResultMismatch


@dataclasses.dataclass
class Card:
    number: str


@dataclasses.dataclass
class Transfer:
    iban: str
    data: bytes = b""


@dataclasses.dataclass
class Payment:
    by: Card | Transfer


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Square(msgspec.Struct, tag=True):
    side: int


class Circle(msgspec.Struct, tag=True):
    radius: int


class Loose(msgspec.Struct):
    n: int


class Other(msgspec.Struct):
    n: int


@pydantic.dataclasses.dataclass
class Positive:
    n: Annotated[int, pydantic.Field(gt=0)]


class Opaque:
    pass


class Options(TypedDict, total=False):
    a: int


def of(annotation: Any, returns: Any = None) -> Signature:
    def handler(value: Any) -> Any: ...

    handler.__annotations__ = {"value": annotation, "return": returns}
    return Signature.of(handler, job="send")


GOOD: list[tuple[Any, Any]] = [
    (Card | Transfer, Transfer("DE1", b"\xff\xfe>>??")),
    (Card | Transfer, Card("1")),
    (list[Card | Transfer], [Card("1"), Transfer("DE1")]),
    (dict[str, Card | Transfer] | None, None),
    (Payment, Payment(Transfer("DE1"))),
    (Cat | Dog, Dog(name="Rex")),
    (Pet, Cat(lives=9)),
    (list[Pet], [Dog(name="Rex"), Cat(lives=9)]),
    (Cat | int, 7),
    (Square | Circle, Circle(2)),
    (Positive, Positive(1)),
    (Annotated[int, pydantic.Field(gt=0)], 1),
    (Path, Path("/tmp/ä")),
    (Path | None, None),
    (list[Path], [Path("a"), Path("b")]),
    (dict[str, PurePath], {"a": PurePath("a/b")}),
    (PurePosixPath, PurePosixPath("a/b")),
    (PureWindowsPath, PureWindowsPath(r"c:\\a")),
    (Path | int, Path("a")),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    (object, [1, "x"]),
    (dict[str, object], {"a": [1]}),
    (list[Any], [1, "x"]),
]


@pytest.mark.parametrize(("annotation", "value"), GOOD, ids=str)
def test_value_comes_back_as_annotated(annotation: Any, value: Any) -> None:
    signature = of(annotation, annotation)
    (found,), _ = signature.decode(signature.encode((value,), {}))
    assert found == value
    assert type(found) is type(value)
    if signature.returns is not None:
        data = msgspec.json.decode(signature.encode((value,), {}), type=dict[str, msgspec.Raw])
        assert signature.returns.read("r", data["value"]) == value


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (Card | Transfer, {"sku": "x"}, "got a wrong value: card.number: Field required"),
        (Card | Transfer, {"number": 7}, "Input should be a valid string"),
        (list[Card | Transfer], [{"number": "1"}, {}], "1.Card.number: Field required"),
        (Payment, {"by": {}}, "by.Card.number"),
        (Pet, {"kind": "cow"}, "does not match any of the expected tags"),
        (Cat | int, "7", "got a wrong value"),
        (Positive, {"n": 0}, "greater than 0"),
        (Annotated[int, pydantic.Field(gt=0)], 0, "greater than 0"),
        (Path, 7, "expected `str`, got `int`"),
        (list[Path], [None], "expected `str`, got `NoneType`"),
        (ipaddress.IPv4Address, "10.0.0.256", "got a wrong value"),
    ],
    ids=str,
)
def test_wrong_value_is_refused(annotation: Any, value: Any, why: str) -> None:
    with pytest.raises(BadArguments) as caught:
        of(annotation).encode((value,), {})
    assert why in str(caught.value)


REFUSED: list[tuple[Any, str]] = [
    (Opaque, "Opaque cannot be read from JSON; make it a dataclass"),
    (list[Opaque], "Opaque cannot be read from JSON"),
    (dict[str, Card | Opaque], "Opaque cannot be read from JSON"),
    (Iterable[int], "Iterable cannot be read from JSON; take what JSON has"),
    (Callable[[int], int], "Callable cannot be read from JSON"),
    (type[int], "type cannot be read from JSON"),
    (Loose | Other, "neither msgspec nor pydantic can check Loose | Other"),
    (Card | Loose | Other, "neither msgspec nor pydantic can check"),
    (list[Annotated[int, msgspec.Meta(gt=0)] | Card | Transfer], "it ignores msgspec.Meta"),
    (5, "5 cannot be read from JSON (Type '5' is not supported)"),
]


@pytest.mark.parametrize(("annotation", "why"), REFUSED, ids=str)
def test_annotation_that_nobody_can_check_is_refused(annotation: Any, why: str) -> None:
    with pytest.raises(BadOption) as caught:
        of(annotation)
    assert "job 'send' cannot check its argument value: " in str(caught.value)
    assert why in str(caught.value)
    with pytest.raises(BadOption, match="job 'send' cannot check its result: "):
        of(Any, annotation)


def test_without_pydantic_the_refusal_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(
        BadOption, match=r"check Card \| Transfer; install pydantic, which can: pip"
    ):
        of(Card | Transfer)
    assert of(Square | Circle).encode((Square(1),), {})


def test_path_of_another_system_is_refused() -> None:
    from pathlib import PosixPath, WindowsPath

    foreign = WindowsPath if isinstance(Path(), PosixPath) else PosixPath
    with pytest.raises(BadOption, match="cannot be read from JSON"):
        of(foreign)


def test_annotated_kwargs_are_checked() -> None:
    def handler(a: int, **rest: Path) -> None: ...

    signature = Signature.of(handler, job="send")
    data = signature.encode((1,), {"b": Path("x")})
    assert signature.decode(data) == ((1,), {"b": Path("x")})
    with pytest.raises(BadArguments, match="got a wrong b: expected `str`, got `int`") as caught:
        signature.encode((1,), {"b": 5})
    assert caught.value.parameter == "b"


def test_kwargs_by_a_typed_dict_are_refused() -> None:
    def handler(**rest: Unpack[Options]) -> None: ...

    with pytest.raises(BadOption, match=r"arguments \*\*rest: .*; name its arguments"):
        Signature.of(handler, job="send")


def test_no_annotation_and_any_are_not_checked() -> None:
    def handler(a, b: Any): ...  # type: ignore[no-untyped-def]

    signature = Signature.of(handler, job="send")
    assert signature.decode(signature.encode(([1], {"x": None}), {})) == (([1], {"x": None}), {})
    assert signature.returns is None
    assert of(Any, Any).returns is None


@pytest.mark.parametrize(
    ("annotation", "stored", "result"),
    [
        (Card | Snooze, b'{"number":"1"}', Card("1")),
        (int | Cancel | Fail | None, b"null", None),
        (Snooze, b"null", None),
        (NoReturn, b"null", None),
        (None, b"null", None),
    ],
    ids=str,
)
def test_what_ends_no_run_with_a_value_is_no_part_of_the_result(
    annotation: Any, stored: bytes, result: Any
) -> None:
    returns = of(Any, annotation).returns
    assert returns is not None
    assert returns.read("r", stored) == result


def test_result_that_does_not_fit_is_an_error_with_the_place() -> None:
    returns = of(Any, list[Card]).returns
    assert returns is not None
    with pytest.raises(ResultMismatch) as caught:
        returns.read("r1", b'[{"number":7}]')
    assert str(caught.value) == (
        "The result of run r1 does not fit what job 'send' says it returns: "
        "[0].number: expected `str`, got `int`. What is stored is in run.raw_result."
    )
