"""What handlers take: names and types are checked before a run exists."""

import contextlib
import dataclasses
import decimal
import functools
import inspect
import time
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.signature import Signature, check_parameters
from windlass.errors import BadArguments, BadOption, BadPayload, PayloadTooLarge


class Context:
    """Stands for ours, which belongs to a layer above."""

    __module__ = "windlass.context"


class SyncContext(Context):
    __module__ = "windlass.context"


class TestingContext(SyncContext):
    __module__ = "somebody.elses"
    __test__ = False


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


class Order(msgspec.Struct):
    id: int
    lines: list[Line] = []


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    name: str = pydantic.Field(alias="fullName")
    born: date | None = None


class Size(TypedDict):
    width: int


class Spot(NamedTuple):
    x: int
    y: int


class Node(msgspec.Struct):
    children: list["Node"] = []


def of(handler: Any) -> Signature:
    return Signature.of(handler, job="send")


def round_trip(handler: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    signature = of(handler)
    return signature.decode(signature.encode(args, kwargs))


def test_context_is_found_by_class() -> None:
    def own(c: Context, a: int) -> None: ...
    def sub(c: TestingContext, a: int) -> None: ...
    def optional(c: Annotated[Context, "doc"], a: int) -> None: ...
    def none(c: int, a: int) -> None: ...
    def foreign(c: decimal.Context, a: int) -> None: ...

    assert [of(h).takes_context for h in (own, sub, none)] == [True, True, False]
    assert of(own).positional == ("a",)
    with pytest.raises(BadOption, match="argument c: Context cannot be read from JSON"):
        of(foreign)


def test_context_is_found_by_the_name_ctx() -> None:
    def handler(ctx, a): ...  # type: ignore[no-untyped-def]
    def only(ctx, /): ...  # type: ignore[no-untyped-def]
    def nothing() -> None: ...

    assert of(handler).takes_context
    assert of(handler).positional == ("a",)
    assert of(only).encode((), {}) == b"{}"
    assert not of(nothing).takes_context


def test_context_elsewhere_is_refused() -> None:
    def second(a: int, c: Context) -> None: ...
    def keyword(*, c: SyncContext) -> None: ...
    def named(a: int, ctx: Any) -> None: ...

    for handler in (second, keyword, named):
        with pytest.raises(BadOption, match="must take the context first"):
            of(handler)


def test_what_cannot_be_a_job_is_refused() -> None:
    def many(*args: int) -> None: ...
    def generator() -> Any:
        yield 1

    async def stream() -> Any:
        yield 1

    for handler, why in [
        (many, r"takes \*args: name its arguments"),
        (generator, "is a generator"),
        (stream, "is a generator"),
        (functools.partial(generator), "is a generator"),
        (5, "not a function"),
    ]:
        with pytest.raises(BadOption, match=why):
            of(handler)


def test_async_is_seen_through_partials_and_callables() -> None:
    async def handler(a: int) -> None: ...
    def plain(a: int) -> None: ...

    class Callable:
        async def __call__(self, a: int) -> None: ...

    class Plain:
        def __call__(self, a: int) -> None: ...

    for made in (handler, functools.partial(handler), functools.partial(handler, a=1), Callable()):
        assert of(made).is_async
    for other in (plain, functools.partial(plain, 1), Plain()):
        assert not of(other).is_async
    assert of(Callable()).positional == ("a",)
    assert of(functools.partial(plain, 1)).positional == ()


def test_wrapped_function_shows_its_own_signature() -> None:
    def inner(ctx: Context, user_id: int) -> None: ...

    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert of(wrapper).positional == ("user_id",)
    with pytest.raises(BadArguments):
        of(wrapper).encode(("x",), {})


def test_wrapper_that_drives_a_generator_is_a_function() -> None:
    @contextlib.contextmanager
    def handler(a: int) -> Any:
        yield a

    assert of(handler).positional == ("a",)


def test_annotations_of_a_wrapped_function_are_resolved_in_its_module() -> None:
    namespace: dict[str, Any] = {"Number": int}
    exec("def inner(a: 'Number'): pass", namespace)  # noqa: S102

    @functools.wraps(namespace["inner"])
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    with pytest.raises(BadArguments, match="expected `int`"):
        of(wrapper).encode(("x",), {})


def all_kinds(
    ctx: Context, a: int, /, b: int, c: int = 3, *, d: int, e: int = 5
) -> tuple[int, ...]:
    return (a, b, c, d, e)


@pytest.mark.parametrize(
    ("args", "kwargs", "result"),
    [
        ((1, 2), {"d": 4}, (1, 2, 3, 4, 5)),
        ((1,), {"b": 2, "d": 4}, (1, 2, 3, 4, 5)),
        ((), {"a": 1, "b": 2, "c": 30, "d": 4, "e": 50}, (1, 2, 30, 4, 50)),
        ((1, 2, 30), {"e": 50, "d": 4}, (1, 2, 30, 4, 50)),
    ],
)
def test_all_kinds_of_parameters(args: Any, kwargs: Any, result: Any) -> None:
    signature = of(all_kinds)
    positional, keywords = signature.decode(signature.encode(args, kwargs))
    assert all_kinds(Context(), *positional, **keywords) == result
    assert set(keywords) == {"d", "e"}


def test_one_argument_is_counted_in_the_singular() -> None:
    def one(a: int) -> None: ...

    with pytest.raises(BadArguments, match="takes 1 positional argument, 2 were given"):
        of(one).bind((1, 2), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "why", "parameter"),
    [
        ((), {}, "Job 'send' needs the argument a.", "a"),
        ((1,), {"b": 2}, "Job 'send' needs the argument d.", "d"),
        ((1, 2, 3, 4), {"d": 4}, "takes 3 positional arguments, 4 were given", None),
        ((1, 2), {"d": 4, "a": 1}, "Job 'send' got a twice.", "a"),
        ((1, 2), {"d": 4, "z": 1}, "has no argument 'z' (it takes: a, b, c, d, e)", "z"),
        ((1, 2), {"d": 4, "ctx": 1}, "has no argument 'ctx'", "ctx"),
        ((1, "x"), {"d": 4}, "got a wrong b: expected `int`, got `str`", "b"),
        ((1, None), {"d": 4}, "got a wrong b: expected `int`, got `null`", "b"),
        ((1, True), {"d": 4}, "got a wrong b: expected `int`, got `bool`", "b"),
    ],
)
def test_wrong_calls_are_refused(args: Any, kwargs: Any, why: str, parameter: str | None) -> None:
    with pytest.raises(BadArguments) as caught:
        of(all_kinds).encode(args, kwargs)
    assert why in str(caught.value)
    assert (caught.value.job, caught.value.parameter) == ("send", parameter)


def test_bind_stores_no_defaults() -> None:
    assert of(all_kinds).bind((1, 2), {"d": 4}) == {"a": 1, "b": 2, "d": 4}


def test_extra_arguments_are_taken_by_kwargs() -> None:
    def handler(a: int, *, b: int = 2, **rest: Any) -> None: ...

    assert round_trip(handler, 1, x=[1], y=None) == ((1,), {"b": 2, "x": [1], "y": None})
    assert of(handler).parameters()[-1] == {"name": "**rest", "required": False}
    with pytest.raises(BadArguments, match="needs the argument a"):
        of(handler).encode((), {"x": 1})
    with pytest.raises(BadArguments, match="wrong b"):
        of(handler).encode((1,), {"b": "x", "y": 1})


def test_values_come_back_as_annotated() -> None:
    def handler(
        order: Order,
        line: Line,
        who: Person,
        size: Size,
        spot: Spot,
        when: date,
        price: decimal.Decimal,
        kind: Literal["a", "b"],
        tags: set[str],
        team: list[Person],
        tree: Node,
        count: Annotated[int, msgspec.Meta(ge=1)] = 1,
    ) -> None: ...

    ada = Person(fullName="Ada", born=date(1815, 12, 10))
    given = (
        Order(1, [Line("x", 2)]),
        Line("y"),
        ada,
        Size(width=2),
        Spot(1, 2),
        date(2030, 1, 1),
        decimal.Decimal("1.10"),
        "a",
        {"t"},
        [ada],
        Node([Node()]),
    )
    assert round_trip(handler, *given) == ((*given, 1), {})


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({"order": {"id": "x"}}, "got a wrong order.id: expected `int`, got `str`."),
        ({"order": {}}, "got a wrong order: object missing required field `id`."),
        ({"order": {"id": 1, "lines": [{"sku": 1}]}}, "wrong order.lines[0].sku"),
        ({"who": {"fullName": 5}}, "got a wrong who: fullName: Input should be a valid string."),
        ({"who": {"name": "secret"}}, "got a wrong who: fullName: Field required."),
        ({"count": 0}, "got a wrong count: expected `int` >= 1."),
    ],
)
def test_wrong_values_are_named_by_their_path(kwargs: Any, why: str) -> None:
    def handler(
        order: Order = Order(1),  # noqa: B008
        who: Person | None = None,
        count: Annotated[int, msgspec.Meta(ge=1)] = 1,
    ) -> None: ...

    with pytest.raises(BadArguments) as caught:
        of(handler).encode((), kwargs)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_defaults_are_the_functions_own_objects() -> None:
    marker, box = object(), [1]

    def handler(a: Any = marker, b: list[int] = box, c: int = None, *, d: Any = box) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    (a, b, c), keywords = round_trip(handler)
    assert a is marker
    assert b is box
    assert c is None
    assert keywords["d"] is box
    assert round_trip(handler, c=None)[0][2] is None


def test_default_after_a_missing_positional_only_parameter() -> None:
    def handler(a: int = 1, b: int = 2, /) -> None: ...

    assert round_trip(handler, b=5) == ((1, 5), {})


def test_parameters_may_have_any_name() -> None:
    def handler(self, cls, p1, p0, __struct_fields__, größe, __init__=7): ...  # type: ignore[no-untyped-def]

    assert round_trip(handler, 1, 2, 3, 4, 5, 6) == ((1, 2, 3, 4, 5, 6, 7), {})


def test_payload_rules_apply_to_arguments() -> None:
    def handler(a: Any) -> None: ...

    with pytest.raises(BadPayload, match=r"input of job 'send' cannot be stored at \$\.a"):
        of(handler).encode((float("nan"),), {})
    with pytest.raises(PayloadTooLarge):
        of(handler).encode(("x" * 100,), {}, limit=50)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{}", "needs the argument a"),
        (b'{"a":1,"old":2}', "has no argument 'old'"),
        (b"[1]", "takes an object with a member per argument"),
        (b"null", "takes an object with a member per argument"),
        (b'{"a":[]}', "got a wrong a"),
    ],
)
def test_stored_input_that_no_longer_fits_is_refused(data: bytes, why: str) -> None:
    def handler(a: int) -> None: ...

    with pytest.raises(BadArguments, match=why):
        of(handler).decode(data)
    with pytest.raises(BadPayload):
        of(handler).decode(b"{")


def test_decode_takes_raw() -> None:
    def handler(a: int) -> None: ...

    assert of(handler).decode(msgspec.Raw(b'{"a":1}')) == ((1,), {})


def test_stored_parameters_check_names_without_the_handler() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(of(all_kinds).parameters()))
    assert stored == [
        {"name": "a", "required": True},
        {"name": "b", "required": True},
        {"name": "c", "required": False},
        {"name": "d", "required": True},
        {"name": "e", "required": False},
    ]
    check_parameters(stored, {"a": 1, "b": 2, "d": 4}, "send")
    with pytest.raises(BadArguments, match="needs the argument d"):
        check_parameters(stored, {"a": 1, "b": 2}, "send")
    with pytest.raises(BadArguments, match="has no argument 'z'"):
        check_parameters(stored, {"a": 1, "b": 2, "d": 4, "z": 5}, "send")
    with pytest.raises(BadArguments, match="it takes: none"):
        check_parameters([], {"z": 5}, "send")
    open_ended = [*stored, {"name": "**rest", "required": False}]
    check_parameters(open_ended, {"a": 1, "b": 2, "d": 4, "z": 5}, "send")


NAMES = ["a", "b", "c", "d"]


@given(
    st.lists(
        st.sampled_from(
            [
                inspect.Parameter.POSITIONAL_ONLY,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                inspect.Parameter.KEYWORD_ONLY,
            ]
        ),
        max_size=4,
    ),
    st.integers(0, 4),
    st.booleans(),
    st.lists(st.integers(), max_size=5),
    st.dictionaries(st.sampled_from([*NAMES, "z"]), st.integers(0, 9), max_size=4),
)
def test_bind_agrees_with_python(
    kinds: list[Any], defaults: int, extra: bool, args: list[int], kwargs: dict[str, int]
) -> None:
    parameters = [
        inspect.Parameter(
            name,
            kind,
            default=0 if index >= len(kinds) - defaults else inspect.Parameter.empty,
        )
        for index, (name, kind) in enumerate(zip(NAMES, sorted(kinds), strict=False))
    ]
    if extra:
        parameters.append(inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD))

    def handler(*args: Any, **kwargs: Any) -> None: ...

    handler.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # Python does not take positional-only parameters by name; we do, since inputs are objects.
    by_name = inspect.Signature(
        [
            p.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
            if p.kind is inspect.Parameter.POSITIONAL_ONLY
            else p
            for p in parameters
        ]
    )
    try:
        expected = by_name.bind(*args, **kwargs).arguments
        expected |= expected.pop("rest", {})
    except TypeError:
        with pytest.raises(BadArguments):
            of(handler).bind(args, kwargs)
    else:
        assert of(handler).bind(args, kwargs) == expected


def test_decoding_stays_cheap() -> None:
    # The budget is 3 µs; inspect.Signature.bind alone would exceed this bound on a slow machine.
    def handler(ctx: Context, a: int, b: int) -> None: ...

    signature = of(handler)

    def once() -> float:
        start = time.perf_counter()
        for _ in range(100):
            signature.decode(b'{"a":1,"b":2}')
        return (time.perf_counter() - start) / 100

    assert min(once() for _ in range(20)) < 15e-6
