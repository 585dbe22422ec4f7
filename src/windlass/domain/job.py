"""A job: the definition that runs are made of."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import CodeType
from typing import Any, TypedDict, TypeGuard, Unpack

import msgspec

from windlass.domain.origin import Folder
from windlass.domain.policy import Retry
from windlass.domain.run import JobRow
from windlass.domain.signature import Signature
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, UsageError

DEFAULT_QUEUE = "default"
DEFAULT_MAX_ATTEMPTS = 5
MOST_ATTEMPTS = 1_000_000
PRIORITIES = range(-32_768, 32_768)
MAX_KEY_BYTES = 1000
"""Of a key, in UTF-8: with the longest tenant and job it still fits an index of PostgreSQL."""

_NAME = re.compile(r"[^\s,\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")


class Executor(StrEnum):
    """Where a handler runs."""

    ASYNC = "async"  # on the worker's event loop
    THREAD = "thread"  # in one of the worker's threads
    PROCESS = "process"  # in a child process of the worker, which can be killed


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as its code defines it."""

    name: str
    handler: Callable[..., Any]
    signature: Signature
    executor: Executor
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    default_input: bytes | None = None
    """The input, encoded, of a run that is given none."""
    version: str = ""
    home: object = field(default=None, repr=False, compare=False)
    """What must live as long as the definition: a job file's modules."""
    folder: Folder | None = field(default=None, repr=False, compare=False)
    """The job files that it was defined in, as they were."""

    def row(self, tenant: str) -> JobRow:
        """What is stored, for processes that have not this code."""
        return JobRow(
            name=self.name,
            tenant=tenant,
            queue=self.queue,
            priority=self.priority,
            max_attempts=self.max_attempts,
            timeout=self.timeout,
            retry=self.retry.to_json(),
            parameters=tuple(self.signature.parameters()),
            default_input=msgspec.Raw(self.default_input or b"null"),
            version=self.version,
        )


class JobOptions(TypedDict, total=False):
    """What a definition may say: the arguments of ``app.job``."""

    name: str | None
    queue: str
    priority: int
    max_attempts: int
    retry: Retry | None
    timeout: Duration | None
    executor: str | None
    default_input: Mapping[str, Any] | None


def define_job(handler: Callable[..., Any], **options: Unpack[JobOptions]) -> JobSpec:
    """Check a definition, all of it, when it is written down and not at 3 a.m."""
    for option in options:
        if option not in JobOptions.__annotations__:
            known = ", ".join(JobOptions.__annotations__)
            raise BadOption(option, f"there is no such option; there are {known}")
    name = check_name("name", options.get("name") or getattr(handler, "__name__", ""))
    signature = Signature.of(handler, job=name)
    return JobSpec(
        name=name,
        handler=handler,
        signature=signature,
        executor=_executor(options.get("executor"), signature),
        queue=check_name("queue", options.get("queue", DEFAULT_QUEUE)),
        priority=check_priority(options.get("priority", 0)),
        max_attempts=check_max_attempts(options.get("max_attempts", DEFAULT_MAX_ATTEMPTS)),
        retry=_retry(options.get("retry")),
        timeout=check_timeout(options.get("timeout")),
        default_input=_default_input(options.get("default_input"), signature),
        version=_version(handler),
    )


def _default_input(given: object, signature: Signature) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadOption("default_input", "it must be a dict, with an item for each argument")
    try:
        return signature.encode((), given)
    except UsageError as error:
        raise BadOption("default_input", str(error).rstrip(".")) from error


def is_name(value: object) -> TypeGuard[str]:
    """Whether it can be the name of a job or a queue: visible, without spaces or commas."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def check_name(option: str, value: object) -> str:
    """Raise BadOption for what cannot be a name."""
    if not is_name(value):
        raise BadOption(option, f"{value!r} is not a name: no spaces, commas or control characters")
    return value


def check_text(option: str, value: object, longest: int) -> str:
    """Text that both stores can hold."""
    if not isinstance(value, str) or not value:
        raise BadOption(option, f"{value!r} is not text")
    if len(value) > longest:
        raise BadOption(option, f"it has {len(value)} characters, more than {longest}")
    if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise BadOption(option, "it has a NUL or a lone surrogate, which no store can hold")
    return value


def check_key(value: object) -> str:
    """The key of a run or a schedule: one limit for both, in bytes, on both stores."""
    key = check_text("key", value, MAX_KEY_BYTES)
    size = len(key.encode())
    if size > MAX_KEY_BYTES:
        raise BadOption("key", f"it has {size} bytes in UTF-8, more than {MAX_KEY_BYTES}")
    return key


def check_priority(value: object) -> int:
    """Larger is more urgent."""
    if not isinstance(value, int) or isinstance(value, bool) or value not in PRIORITIES:
        raise BadOption("priority", f"{value!r} is not a whole number from -32768 to 32767")
    return value


def check_max_attempts(value: object) -> int:
    """At least one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_ATTEMPTS:
        raise BadOption("max_attempts", f"{value!r} is not a whole number from 1 to 1,000,000")
    return value


def check_timeout(value: Duration | None) -> float | None:
    """A length of time greater than zero, or none."""
    if value is None:
        return None
    seconds = parse_duration(value)
    if seconds <= 0:
        raise BadOption("timeout", "it must be longer than zero; leave it out for none")
    return seconds


def _retry(value: object) -> Retry:
    if value is None:
        return Retry()
    if not isinstance(value, Retry):
        raise BadOption("retry", f"{value!r} is not a Retry, e.g. Retry.exponential(base='1s')")
    return value


def _executor(value: str | None, signature: Signature) -> Executor:
    natural = Executor.ASYNC if signature.is_async else Executor.THREAD
    if value is None:
        return natural
    if value not in tuple(Executor):
        raise BadOption("executor", f"{value!r} is not one of {', '.join(Executor)}")
    if value == Executor.PROCESS:
        return Executor.PROCESS
    if value != natural:
        kind = "an async" if signature.is_async else "a sync"
        why = f"{kind} function runs as {natural.value!r} or 'process', not {value!r}"
        raise BadOption("executor", why)
    return natural


def _version(handler: Callable[..., Any]) -> str:
    """A short hash that changes when the handler's own code does."""
    code = getattr(handler, "__code__", None)
    digest = hashlib.sha256()
    if isinstance(code, CodeType):
        _feed(digest, code)
    else:
        digest.update(repr(type(handler)).encode())
    return digest.hexdigest()[:12]


def _feed(digest: "hashlib._Hash", code: CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed(digest, constant)
        elif not isinstance(constant, frozenset):  # whose order changes from process to process
            digest.update(repr(constant).encode())
