"""What is kept of an exception, however hostile it is."""

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain import report
from windlass.domain.report import MESSAGE_LIMIT, TRACEBACK_LIMIT, ErrorInfo, describe_error


def caught(raiser: Callable[[], object]) -> BaseException:
    try:
        raiser()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("it did not raise")


def raising(error: BaseException) -> Callable[[], object]:
    def raiser() -> object:
        raise error

    return raiser


def assert_storable(info: ErrorInfo) -> None:
    """Check what both stores need: clean UTF-8, no NUL, bounded size."""
    decoded = msgspec.json.decode(msgspec.json.encode(info), type=ErrorInfo)
    assert decoded == info
    assert "\0" not in info.type + info.message + info.traceback + info.fingerprint
    assert len(info.type) <= 500
    assert len(info.message) <= MESSAGE_LIMIT
    assert len(info.traceback.encode()) <= TRACEBACK_LIMIT


class StrRaises(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class StrExits(Exception):
    def __str__(self) -> str:
        sys.exit(3)


class StrRecurses(Exception):
    def __str__(self) -> str:
        return str(self)


class StrIsNoText(Exception):
    def __str__(self) -> str:
        return 42  # type: ignore[return-value]


class StrIsHuge(Exception):
    def __str__(self) -> str:
        return "x" * 100_000_000


class Sly(str):
    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("no slices")

    def encode(self, *args: Any, **kwargs: Any) -> bytes:
        raise RuntimeError("no bytes")


class StrIsSly(Exception):
    def __str__(self) -> str:
        return Sly("sly")


class Falsy(Exception):
    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparing")

    __hash__ = None  # type: ignore[assignment]


class NoTraceback(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no frames")


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=Meta):
    pass


ODD_NAME: Any = type("Odd", (Exception,), {"__module__": 5, "__qualname__": "Odd\ud800\0Name"})


@pytest.mark.parametrize(
    "error",
    [
        StrRaises(),
        StrExits(),
        StrRecurses(),
        StrIsNoText(),
        StrIsHuge(),
        StrIsSly(),
        Falsy(),
        NoTraceback(),
        Nameless("x"),
        ODD_NAME("x"),
        ValueError("a\0b \ud800 c"),
        ValueError("\ud800" * 20_000),
        ValueError("é" * 20_000),
        KeyboardInterrupt(),
        SystemExit(1),
        BaseExceptionGroup("g", [KeyboardInterrupt(), StrRaises()]),
    ],
    ids=lambda error: repr(type.__dict__["__qualname__"].__get__(type(error))),
)
def test_every_error_can_be_stored(error: BaseException) -> None:
    error.__cause__ = StrRaises()
    info = describe_error(caught(raising(error)))
    assert_storable(info)
    assert info.type
    assert len(info.fingerprint) >= 16


@given(st.text(st.characters(exclude_categories=[])), st.text())
def test_any_message_can_be_stored(message: str, name: str) -> None:
    cls: Any = type(name.replace("\0", ""), (Exception,), {})
    assert_storable(describe_error(cls(message)))


def test_type_and_message_are_plain() -> None:
    info = describe_error(ValueError("boom"))
    assert (info.type, info.message, info.traceback) == ("ValueError", "boom", "ValueError: boom\n")
    assert describe_error(StrIsSly()).message == "sly"
    assert describe_error(StrRaises()).message == "<not available: RuntimeError>"
    assert describe_error(StrRaises()).type.endswith("test_report.StrRaises")
    assert describe_error(msgspec.ValidationError("x")).type == "msgspec.ValidationError"
    assert describe_error(ValueError("a\0\ud800")).message == "a\\x00\\ud800"


def test_message_is_cut_at_its_end_and_traceback_at_its_start() -> None:
    info = describe_error(caught(raising(ValueError("a" * MESSAGE_LIMIT + "b"))))
    assert info.message == "a" * MESSAGE_LIMIT
    chain: BaseException = ValueError("oldest")
    for number in range(15):
        newer = ValueError(f"{number}" + "x" * 9_000)
        newer.__cause__ = chain
        chain = newer
    info = describe_error(chain)
    assert "oldest" not in info.traceback
    assert info.traceback.endswith("x\n")
    assert len(info.traceback.encode()) == TRACEBACK_LIMIT


def test_cutting_a_traceback_keeps_whole_characters() -> None:
    error = ValueError("é" * 9_999)
    error.__cause__ = ValueError("é" * 9_999)
    error.__cause__.__cause__ = ValueError("é" * 9_999)
    error.__cause__.__cause__.__cause__ = ValueError("é" * 9_999)
    info = describe_error(error)
    assert_storable(info)
    assert len(info.traceback.encode()) >= TRACEBACK_LIMIT - 1


def test_traceback_shows_causes_first_and_names_the_joint() -> None:
    def outer() -> None:
        try:
            int("missing")
        except ValueError as error:
            raise KeyError("outer") from error

    text = describe_error(caught(outer)).traceback
    cause, joint, effect = (
        text.index("ValueError: invalid literal"),
        text.index("direct cause"),
        text.index("KeyError: 'outer'"),
    )
    assert cause < joint < effect
    assert 'int("missing")' in text
    assert "in outer" in text


def test_traceback_shows_a_context_unless_suppressed() -> None:
    def with_context() -> None:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer")  # noqa: B904

    def without() -> None:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from None

    assert "During handling" in describe_error(caught(with_context)).traceback
    assert "inner" not in describe_error(caught(without)).traceback


def test_cyclic_and_endless_chains_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert describe_error(one).traceback.count("ValueError") == 2
    chain: BaseException = ValueError("first")
    for _ in range(5_000):
        newer = ValueError("next")
        newer.__context__ = chain
        chain = newer
    assert_storable(describe_error(chain))


def test_groups_show_their_members_within_bounds() -> None:
    group: Exception = ExceptionGroup("inner", [ValueError("deep")])
    for _ in range(12):
        group = ExceptionGroup("wide", [group] * 30)
    info = describe_error(group)
    assert_storable(info)
    assert "sub-exception 10 of 30" in info.traceback
    assert "sub-exception 11 of 30" not in info.traceback
    flat = describe_error(ExceptionGroup("g", [KeyError("k"), OSError("o")])).traceback
    assert "  | KeyError: 'k'\n" in flat
    assert "  | OSError: o\n" in flat


def test_deep_recursion_is_described() -> None:
    def descend(depth: int) -> int:
        return descend(depth + 1)

    info = describe_error(caught(lambda: descend(0)))
    assert info.type == "RecursionError"
    assert "in descend" in info.traceback
    assert_storable(info)


def user_code(text: str) -> None:
    raise ValueError(text)


def other_user_code() -> None:
    raise ValueError("x")


def fingerprint(raiser: Callable[[], object]) -> str:
    return describe_error(caught(raiser)).fingerprint


def test_fingerprint_ignores_message_and_line() -> None:
    namespace: dict[str, Any] = {}
    for shift in (0, 7):
        source = "\n" * shift + "def handler():\n    raise ValueError('x')\n"
        exec(compile(source, "/srv/app/jobs.py", "exec"), namespace)  # noqa: S102
        namespace[f"handler{shift}"] = namespace["handler"]
    assert fingerprint(namespace["handler0"]) == fingerprint(namespace["handler7"])
    assert fingerprint(lambda: user_code("a")) == fingerprint(lambda: user_code("b"))


def test_fingerprint_covers_type_and_place() -> None:
    def wrong_type() -> None:
        raise KeyError("x")

    assert fingerprint(lambda: user_code("x")) != fingerprint(other_user_code)
    assert fingerprint(raising(KeyError())) != fingerprint(raising(ValueError()))
    assert fingerprint(wrong_type) != fingerprint(raising(KeyError()))


def test_fingerprint_is_the_same_in_every_process_and_release() -> None:
    info = describe_error(caught(other_user_code))
    assert info.fingerprint == "24edca402f1d0cf6"


def test_fingerprint_is_of_the_users_code_not_of_what_it_calls() -> None:
    def one() -> None:
        msgspec.json.decode(b"x")

    def two() -> None:
        Path("/nonexistent/file").read_text("utf-8")

    def three() -> None:
        Path("/nonexistent/file").read_bytes()

    assert report._place(codes(caught(two))).co_name == "two"  # type: ignore[union-attr]
    assert len({fingerprint(one), fingerprint(two), fingerprint(three)}) == 3


def codes(error: BaseException) -> list[CodeType]:
    found = []
    frames = error.__traceback__
    while frames is not None:
        found.append(frames.tb_frame.f_code)
        frames = frames.tb_next
    return found


def code_of(filename: str, name: str) -> CodeType:
    namespace: dict[str, Any] = {}
    exec(compile(f"def {name}(): pass", filename, "exec"), namespace)  # noqa: S102
    code: CodeType = namespace[name].__code__
    return code


STDLIB = sysconfig.get_path("stdlib")
OURS = str(Path(report.__file__).parent.parent / "engine" / "attempt.py")


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([(OURS, "a"), ("/srv/jobs.py", "b"), ("/srv/lib.py", "c")], "c"),
        ([(OURS, "a"), ("/srv/jobs.py", "b"), (f"{STDLIB}/json/decoder.py", "c")], "b"),
        ([(OURS, "a"), ("/srv/jobs.py", "b"), ("/v/site-packages/x.py", "c")], "b"),
        # Everything is installed, in the standard library's own folder at that.
        (
            [
                (OURS, "a"),
                (f"{STDLIB}/site-packages/app.py", "b"),
                (f"{STDLIB}/site-packages/x.py", "c"),
            ],
            "b",
        ),
        ([("/v/site-packages/windlass_jobs/x.py", "a"), (f"{STDLIB}/json/x.py", "b")], "a"),
        ([(OURS, "a"), (f"{STDLIB}/json/decoder.py", "b")], "b"),
        ([(OURS, "a")], "a"),
        ([], None),
    ],
)
def test_place(frames: list[tuple[str, str]], place: str | None) -> None:
    code = report._place([code_of(filename, name) for filename, name in frames])
    assert (code and code.co_name) == place
