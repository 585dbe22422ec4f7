"""Jobs as they are written down: every mistake is told there and then."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

from windlass import (
    BadOption,
    Context,
    DuplicateJob,
    Job,
    Retry,
    SyncContext,
    UsageError,
    Windlass,
)


class Elsewhere:
    """A library with a class of that name."""

    class Context:
        """Not ours."""


@pytest.fixture
def app(tmp_path: Path) -> Windlass:
    """An application that opens nothing: a definition needs no store."""
    return Windlass(f"sqlite:///{tmp_path}/never.db")


def test_bare_definition_takes_the_functions_name(app: Windlass) -> None:
    @app.job
    async def greet(name: str) -> str:
        return name

    assert isinstance(greet, Job)
    assert greet.name == "greet"
    assert repr(greet) == "<Job greet>"
    assert dict(app.jobs) == {"greet": greet}
    spec = greet.spec
    assert (spec.queue, spec.priority, spec.max_attempts, spec.timeout) == ("default", 0, 5, None)
    assert spec.executor == "async"


def test_definition_with_options(app: Windlass) -> None:
    policy = Retry.fixed("2s")

    @app.job(
        name="mail.send", queue="mail", priority=-3, max_attempts=2, retry=policy, timeout="1m",
        executor="thread",
    )  # fmt: skip
    def send(to: str) -> None: ...

    spec = send.spec
    assert (spec.name, spec.queue, spec.priority, spec.max_attempts, spec.retry, spec.timeout) == (
        "mail.send", "mail", -3, 2, policy, 60.0,
    )  # fmt: skip
    assert spec.executor == "thread"
    assert list(app.jobs) == ["mail.send"]


def test_definition_with_empty_parentheses(app: Windlass) -> None:
    @app.job()
    def tidy() -> None: ...

    assert tidy.name == "tidy"


def test_application_has_a_default_for_max_attempts(tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/never.db", max_attempts=9)

    @app.job
    def nine() -> None: ...

    @app.job(max_attempts=1)
    def one() -> None: ...

    assert (nine.spec.max_attempts, one.spec.max_attempts) == (9, 1)


def test_one_decorator_serves_several_functions(app: Windlass) -> None:
    urgent = app.job(priority=7)

    def first() -> None: ...
    def second() -> None: ...

    assert urgent(first).spec.priority == urgent(second).spec.priority == 7
    assert list(app.jobs) == ["first", "second"]


def test_jobs_cannot_be_added_behind_the_applications_back(app: Windlass) -> None:
    jobs: Any = app.jobs
    with pytest.raises(TypeError):
        jobs["sneaky"] = None
    assert dict(app.jobs) == {}


def test_duplicate_name_names_both_places(app: Windlass) -> None:
    @app.job(name="greet")
    def one() -> None: ...

    with pytest.raises(DuplicateJob) as caught:

        @app.job(name="greet")
        async def two() -> None: ...

    message = str(caught.value)
    for function in ("one", "two"):
        place = f"test_duplicate_name_names_both_places.<locals>.{function} (line "
        assert f"{__name__}.{place}" in message
    assert "name=" in message
    assert app.jobs["greet"] is one


def test_duplicate_of_a_callable_object_is_told_as_well(app: Windlass) -> None:
    def shared(first: int, second: int) -> None: ...

    app.job(name="greet")(functools.partial(shared, 1))
    with pytest.raises(DuplicateJob, match="greet"):
        app.job(name="greet")(functools.partial(shared, 2))


BAD_NAMES = ["", "two words", "a,b", "tab\t", "new\nline", "nul\0", "\x9f", "\ud800", "x" * 201]


@pytest.mark.parametrize("name", BAD_NAMES[1:], ids=ascii)
def test_bad_job_names_are_refused(app: Windlass, name: str) -> None:
    with pytest.raises(BadOption, match="name") as caught:
        app.job(name=name)(lambda: None)
    assert caught.value.option == "name"
    assert dict(app.jobs) == {}


def test_function_without_a_usable_name_needs_one(app: Windlass) -> None:
    with pytest.raises(BadOption):
        app.job(functools.partial(print))
    app.job(name="call")(lambda: None)
    assert list(app.jobs) == ["call"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_bad_queue_names_are_refused(app: Windlass, name: str) -> None:
    with pytest.raises(BadOption) as caught:
        app.job(queue=name)(lambda: None)
    assert caught.value.option == "queue"


BAD_OPTIONS: list[tuple[str, Any]] = [
    ("priority", 40_000), ("priority", "high"), ("priority", True), ("priority", 1.5),
    ("max_attempts", 0), ("max_attempts", -1), ("max_attempts", "five"), ("max_attempts", True),
    ("retry", 5), ("retry", Retry), ("timeout", 0), ("executor", "process"),
    ("queue", None), ("queue", 5), ("nonsense", 1),
]  # fmt: skip


@pytest.mark.parametrize(("option", "value"), BAD_OPTIONS)
def test_bad_options_are_refused_by_name(app: Windlass, option: str, value: Any) -> None:
    options: dict[str, Any] = {"name": "greet", option: value}
    with pytest.raises(BadOption) as caught:
        app.job(**options)(lambda: None)
    assert caught.value.option == option
    assert dict(app.jobs) == {}


@pytest.mark.parametrize("timeout", [-1, "soon", True, float("nan")])
def test_bad_timeouts_are_no_durations(app: Windlass, timeout: Any) -> None:
    from windlass import BadDuration

    with pytest.raises(BadDuration):
        app.job(name="greet", timeout=timeout)(lambda: None)


def test_executor_must_fit_the_function(app: Windlass) -> None:
    async def on_loop() -> None: ...
    def in_thread() -> None: ...

    with pytest.raises(BadOption, match="an async function runs as 'async' or 'process'"):
        app.job(executor="thread")(on_loop)
    with pytest.raises(BadOption, match="a sync function runs as 'thread' or 'process'"):
        app.job(executor="async")(in_thread)


def test_what_no_input_can_fill_is_refused(app: Windlass) -> None:
    def starred(*names: str) -> None: ...
    def late(name: str, ctx: SyncContext) -> None: ...
    def generator() -> Any:
        yield

    for function in (starred, late, generator):
        with pytest.raises(BadOption) as caught:
            app.job(function)
        assert caught.value.option == "handler"
    with pytest.raises(BadOption):
        app.job(name="five")(5)  # type: ignore[call-overload]


def test_keyword_arguments_are_allowed(app: Windlass) -> None:
    @app.job
    def anything(first: int, **others: Any) -> None: ...

    assert anything.request(1, b=2).input == b'{"first":1,"b":2}'


def test_context_is_found(app: Windlass) -> None:
    def by_name(ctx, a):  # type: ignore[no-untyped-def]
        ...

    def by_annotation(c: SyncContext, a: int) -> None: ...
    async def by_async_annotation(run: Context, a: int) -> None: ...

    functions: list[Any] = [by_name, by_annotation, by_async_annotation]
    # As text, as text twice over, and from a module that only a type checker imports.
    for annotation in ("SyncContext", "'SyncContext'", "nowhere.Context", "'nowhere.Context'"):

        def by_text(c: Any, a: int) -> None: ...

        by_text.__annotations__["c"] = annotation
        by_text.__name__ = f"by_{annotation}"
        functions.append(by_text)

    for function in functions:
        job: Job[..., ..., Any] = app.job(function)
        assert job.spec.signature.takes_context, function
        assert job.request(a=1).input == b'{"a":1}'


def test_no_context_is_given_to_who_does_not_ask(app: Windlass) -> None:
    def plain(a: int) -> None: ...
    def other(c: Elsewhere.Context) -> None: ...

    assert not app.job(plain).spec.signature.takes_context
    with pytest.raises(BadOption, match="argument c: Context cannot be read from JSON"):
        app.job(other)


def test_calling_a_job_calls_the_function(app: Windlass) -> None:
    @app.job
    def add(a: int, b: int = 1) -> int:
        return a + b

    @app.job
    async def double(a: int) -> int:
        return 2 * a

    @app.job
    def attempt(ctx: SyncContext, a: int) -> tuple[object, int]:
        return ctx, a

    fake: Any = object()
    assert add(2) == 3
    assert add(2, b=5) == 7
    assert asyncio.run(double(4)) == 8
    assert attempt(fake, 3) == (fake, 3)
    assert add.using(priority=3)(2) == 3


def test_a_call_is_not_checked_as_an_enqueue_is(app: Windlass) -> None:
    @app.job
    def echo(a: int) -> Any:
        return a

    loose: Any = echo
    assert loose("text") == "text"


def test_methods_can_be_jobs(app: Windlass) -> None:
    class Mailer:
        def __init__(self, sender: str) -> None:
            self.sender = sender

        async def send(self, ctx: Context, to: str) -> str:
            return f"{self.sender} to {to}"

    mailer = Mailer("Ada")
    send = app.job(mailer.send)
    assert send.name == "send"
    assert send.request("Bob").input == b'{"to":"Bob"}'
    assert send.spec.executor == "async"


def test_a_class_or_a_bare_name_is_refused_with_what_to_write(app: Windlass) -> None:
    with pytest.raises(UsageError, match=r"Mailer is a class: write a function"):

        @app.job
        class Mailer:
            pass

    with pytest.raises(UsageError, match=r"as an option: @app\.job\(name='send'\)\."):
        app.job("send")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match=r"Late is a class"):

        @app.job(queue="slow")
        class Late:
            pass

    assert not app.jobs
