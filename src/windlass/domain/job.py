"""A job: the definition that runs are made of."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import CodeType
from typing import Any, Literal, TypedDict, TypeGuard, Unpack

import msgspec

from windlass.domain.failed import FailedRun, FailureHandler
from windlass.domain.origin import Folder
from windlass.domain.policy import Retry
from windlass.domain.retention import DEFAULT_TERMS, Retention, RetentionTerms
from windlass.domain.run import JobRow, RunDefaults
from windlass.domain.signature import Signature
from windlass.domain.step import MOST_MAX_STEPS
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, UsageError

DEFAULT_QUEUE = "default"
DEFAULT_MAX_ATTEMPTS = 5
MOST_ATTEMPTS = 1_000_000
PRIORITIES = range(-32_768, 32_768)
MAX_KEY_BYTES = 1000
"""Of a key, in UTF-8: with the longest tenant and job it still fits an index of PostgreSQL."""

MOST_TAGS = 100
_LONGEST_TAG = 200

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
    max_steps: int | None = None
    """How many durable steps a run may have; None: as the settings say."""
    default_input: bytes | None = None
    """The input, encoded, of a run that is given none."""
    defaults: RunDefaults | None = None
    """What its runs have unless their enqueue says otherwise."""
    on_failure: FailureHandler | None = None
    """Who handles the failures of its runs."""
    phases: tuple[str, ...] | None = None
    """The names of a pipeline's phases, in order."""
    retention: Retention | None = None
    """How long its runs are kept; None: as the settings say."""
    version: str = ""
    home: object = field(default=None, repr=False, compare=False)
    """What must live as long as the definition: a job file's modules."""
    folder: Folder | None = field(default=None, repr=False, compare=False)
    """The job files that it was defined in, as they were."""

    def row(self, tenant: str, kept: RetentionTerms = DEFAULT_TERMS) -> JobRow:
        """What is stored, for processes that have not this code.

        `kept`: how long runs are kept where the definition does not say.
        """
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
            defaults=self.defaults,
            on_failure=self.on_failure,
            phases=self.phases,
            retention=kept if self.retention is None else self.retention.terms(kept),
            version=self.version,
        )


class DefaultOptions(TypedDict, total=False):
    """What the definitions of several jobs may have in common: the arguments of a router."""

    queue: str
    priority: int
    max_attempts: int
    retry: Retry | None
    timeout: Duration | None
    executor: str | None
    max_steps: int | None
    tags: Iterable[str]
    expires: Duration | None
    deadline: Duration | None
    unique: Literal["live"] | None
    key_ttl: Duration | None
    retention: Retention | None


class PipelineOptions(DefaultOptions, total=False):
    """What the definition of a pipeline may say: the arguments of ``app.pipeline``."""

    default_input: Mapping[str, Any] | None


class JobOptions(DefaultOptions, total=False):
    """What a definition may say: the arguments of ``app.job``."""

    name: str | None
    default_input: Mapping[str, Any] | None


class FailureOptions(TypedDict, total=False):
    """What the definition of a failure handler may say: the arguments of ``on_failure``.

    Its runs are made by the store, so it has no defaults for them but queue and priority.
    """

    name: str | None
    queue: str
    priority: int
    max_attempts: int
    retry: Retry | None
    timeout: Duration | None
    executor: str | None
    retention: Retention | None


def define_job(handler: Callable[..., Any], **options: Unpack[JobOptions]) -> JobSpec:
    """Check a definition, all of it, when it is written down and not at 3 a.m."""
    _check_known(options, JobOptions)
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
        max_steps=_max_steps(options.get("max_steps")),
        default_input=_default_input(options.get("default_input"), signature),
        defaults=_defaults(options),
        phases=getattr(handler, "phases", None),
        retention=_retention(options.get("retention")),
        version=_version(handler),
    )


def check_defaults(options: DefaultOptions) -> None:
    """Check what is said once for several jobs; whether an executor suits is known with the job."""
    _check_known(options, DefaultOptions)
    others: dict[str, Any] = {name: value for name, value in options.items() if name != "executor"}
    define_job(_nothing, **others)


def _nothing() -> None: ...


def check_failure_options(options: Mapping[str, Any]) -> None:
    """Refuse what a failure handler cannot say."""
    _check_known(options, FailureOptions)


def describe_handler(spec: JobSpec, options: FailureOptions) -> FailureHandler:
    """A failure handler as the jobs that it is for store it. Raises BadOption if it is none.

    Queue and priority are stored only if its definition names them: otherwise those of the run
    that failed count.
    """
    argument = spec.signature.only_parameter(FailedRun)
    if argument is None:
        why = "a failure handler takes one argument that is annotated with FailedRun"
        raise BadOption("handler", f"{why}, after the context if it wants one")
    return FailureHandler(
        job=spec.name,
        argument=argument,
        queue=spec.queue if "queue" in options else None,
        priority=spec.priority if "priority" in options else None,
    )


def _check_known(options: Mapping[str, Any], kind: type[Mapping[str, Any]]) -> None:
    for option in options:
        if option not in kind.__annotations__:
            known = ", ".join(kind.__annotations__)
            raise BadOption(option, f"there is no such option; there are {known}")


def _default_input(given: object, signature: Signature) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadOption("default_input", "it must be a dict, with an item for each argument")
    try:
        return signature.encode((), given)
    except UsageError as error:
        raise BadOption("default_input", str(error).rstrip(".")) from error


def _defaults(options: JobOptions) -> RunDefaults | None:
    found = RunDefaults(
        tags=check_tags(options.get("tags", ())),
        expires=_length("expires", options.get("expires")),
        deadline=_length("deadline", options.get("deadline")),
        unique=check_unique(options.get("unique")),
        key_ttl=_length("key_ttl", options.get("key_ttl")),
    )
    return None if found == RunDefaults() else found


def _length(option: str, value: Duration | None) -> float | None:
    given: object = value  # whatever the annotation says
    if isinstance(given, datetime):
        raise BadOption(option, "a job says how long: give a duration; an enqueue may give a time")
    return None if value is None else parse_duration(value)


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


def check_tags(value: object) -> tuple[str, ...]:
    """Texts, each once."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadOption("tags", f"{value!r} is not a list of texts")
    tags = tuple(dict.fromkeys(check_text("tags", tag, _LONGEST_TAG) for tag in value))
    if len(tags) > MOST_TAGS:
        raise BadOption("tags", f"{len(tags)} are more than {MOST_TAGS}")
    return tags


def check_unique(value: object) -> Literal["live"] | None:
    """Among whom a key is to be unique: live runs, or None, all that there ever were."""
    if value is None or value == "live":
        return None if value is None else "live"
    raise BadOption("unique", f"{value!r} is neither 'live' nor None")


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


def _retention(value: object) -> Retention | None:
    if value is not None and not isinstance(value, Retention):
        why = f"{value!r} is not a Retention, e.g. Retention(delete_after='90d')"
        raise BadOption("retention", why)
    return value


def _max_steps(value: object) -> int | None:
    """How many durable steps a run may have, if its job says so."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MOST_MAX_STEPS:
        why = f"{value!r} is not a whole number from 1 to {MOST_MAX_STEPS:,}"
        raise BadOption("max_steps", why)
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
    elif isinstance(parts := getattr(handler, "functions", None), tuple):  # of a pipeline
        digest.update("".join(map(_version, parts)).encode())
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
