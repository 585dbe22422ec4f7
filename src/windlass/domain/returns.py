"""What a job's handler returns: stored results, read as its return annotation says."""

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass.errors import ResultMismatch

_AT = re.compile(r"(?P<why>.*) - at `\$(?P<where>.*)`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Returns:
    """Reads the results of one job."""

    job: str
    decoder: msgspec.json.Decoder[Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, job: str, decoder: msgspec.json.Decoder[Any] | None) -> "Returns | None":
        """None where results are read as plain JSON."""
        return None if decoder is None else cls(job, decoder)

    def read(self, run: str, data: msgspec.Raw | bytes) -> Any:
        """Return a stored result as annotated.

        Raises ResultMismatch where it does not fit, e.g. one that an older version returned.
        """
        try:
            return self.decoder.decode(data)
        except (ValueError, RecursionError) as error:
            raise ResultMismatch(run, self.job, told(error).removeprefix(": ")) from error


def told(error: Exception) -> str:
    """Say where a value is wrong, below its top, and how: `.lines[0]: expected ...`."""
    found = _AT.fullmatch(str(error))
    why, where = (found["why"], found["where"]) if found else (str(error), "")
    return f"{where}: {why[:1].lower()}{why[1:]}"
