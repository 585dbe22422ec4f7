"""The caller's mistakes."""

from collections.abc import Sequence

from windlass.errors.base import WindlassError


class UsageError(WindlassError):
    """The caller's mistake: repeating the call cannot help."""

    code = "usage"


_UNKNOWN = "import the module that defines it, or start a worker that has it"


class UnknownJob(UsageError):
    """No job of that name is registered or stored."""

    code = "unknown_job"

    def __init__(self, job: str, known: Sequence[str] = ()) -> None:
        super().__init__(job, tuple(known))
        self.job = job
        self.known = tuple(known)

    def __str__(self) -> str:
        from difflib import get_close_matches  # every command would wait for it

        near = get_close_matches(self.job, self.known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else _UNKNOWN
        return f"There is no job {self.job!r}: {hint}{'' if near else '.'}"


class DuplicateJob(UsageError):
    """Two handlers have the same job name."""

    code = "duplicate_job"

    def __init__(self, job: str, first: str, second: str) -> None:
        super().__init__(job, first, second)
        self.job = job
        self.first = first
        self.second = second

    def __str__(self) -> str:
        return (
            f"Two jobs are named {self.job!r}: {self.first} and {self.second}. "
            "Give one of them another name=."
        )


class BadArguments(UsageError):
    """Missing, unknown or invalid arguments for a job."""

    code = "bad_arguments"

    def __init__(self, job: str, why: str, parameter: str | None = None) -> None:
        super().__init__(job, why, parameter)
        self.job = job
        self.why = why
        self.parameter = parameter

    def __str__(self) -> str:
        return f"Job {self.job!r} {self.why}."


class BadPayload(UsageError):
    """A value that JSON, or one of the stores, cannot hold."""

    code = "bad_payload"

    def __init__(self, what: str, why: str, path: str = "$") -> None:
        super().__init__(what, why, path)
        self.what = what
        self.why = why
        self.path = path

    def __str__(self) -> str:
        where = "" if self.path == "$" else f" at {self.path}"
        return f"The {self.what} cannot be stored{where}: {self.why}."


class PayloadTooLarge(UsageError):
    """A value whose JSON exceeds the limit; sizes are in bytes."""

    code = "payload_too_large"

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(what, size, limit)
        self.what = what
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"The {self.what} is {self.size:,} bytes of JSON and the limit is {self.limit:,}: "
            "store it elsewhere and pass a pointer."
        )


class ArtifactTooLarge(UsageError):
    """An artifact that has more bytes than the limit allows."""

    code = "artifact_too_large"

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(name, limit)
        self.name = name
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"Artifact {self.name!r} has more than {self.limit:,} bytes: "
            "raise artifact_limit, or keep it in parts."
        )


class BadDuration(UsageError):
    """A value that is no length of time; `given` shows it, shortened."""

    code = "bad_duration"

    def __init__(self, given: str, why: str) -> None:
        super().__init__(given, why)
        self.given = given
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.given} is not a duration: {self.why}. "
            "Give seconds, a timedelta, or text such as '250ms', '30s', '2h30m' or '7d'."
        )


class BadOption(UsageError):
    """A setting or option that is unknown or out of range.

    `source` says where it came from: an argument, an environment variable or a file.
    """

    code = "bad_option"

    def __init__(self, option: str, why: str, source: str = "argument") -> None:
        super().__init__(option, why, source)
        self.option = option
        self.why = why
        self.source = source

    def __str__(self) -> str:
        return f"Bad option {self.option} ({self.source}): {self.why}."


class JobFileError(UsageError):
    """A job file that cannot be loaded; the other files are not affected.

    `file` and `line` are the place of the mistake, which may be in a file that it imports.
    """

    code = "job_file"

    def __init__(self, file: str, line: int | None, why: str) -> None:
        super().__init__(file, line, why)
        self.file = file
        self.line = line
        self.why = why

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.why}"
