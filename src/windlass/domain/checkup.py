"""What a checkup finds: pure values, and how bad they are together."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is; the later ones are worse."""

    OK = "ok"
    NOTE = "note"  # worth knowing; nothing has to be done
    WARNING = "warning"  # something is not done, or will not be
    ERROR = "error"  # it does not work, or what is promised does not hold

    @property
    def rank(self) -> int:
        """Worse is higher."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found: a sentence, and what to do about it."""

    severity: Severity
    text: str
    advice: str = ""
    check: str = ""  # the name of the check, filled in by whoever runs it
    made: bool = True  # false: the check was not made


def fine(text: str) -> Finding:
    """All is well."""
    return Finding(severity=Severity.OK, text=text)


def note(text: str, advice: str = "") -> Finding:
    """Something worth knowing."""
    return Finding(severity=Severity.NOTE, text=text, advice=advice)


def left_out(text: str) -> Finding:
    """Something that was not looked at."""
    return Finding(severity=Severity.NOTE, text=text, made=False)


def warning(text: str, advice: str) -> Finding:
    """Something that somebody should look at."""
    return Finding(severity=Severity.WARNING, text=text, advice=advice)


def error(text: str, advice: str) -> Finding:
    """Something that must not stay so."""
    return Finding(severity=Severity.ERROR, text=text, advice=advice)


def counted(number: int, noun: str) -> str:
    """So many of something: 1 run, 2,000 runs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sentence(problem: BaseException) -> str:
    """What an error says, as one sentence."""
    text = " ".join(str(problem).split())
    return text if text.endswith((".", "?", "!")) else f"{text}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From where on something is found worth telling; times in seconds."""

    transaction: float = 300.0  # the age of a transaction that is in everybody's way
    waiting: float = 300.0  # how long a run may be ready while there are free seats for it
    late: float = 60.0  # beyond a timeout, a lease or a slot
    recent: float = 86_400.0  # how far back missed slots are told
    skew: float = 2.0  # between two clocks
    dead_rows: int = 20_000  # beside at least as many live ones
    free_bytes: int = 1024**3
    log_bytes: int = 512 * 1024**2  # of SQLite's write-ahead log
    look: float = 3.0  # how long a quick look through a SQLite file may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was found in one place."""

    place: str
    findings: Sequence[Finding]

    @property
    def worst(self) -> Severity:
        """How bad it is."""
        found = [finding.severity for finding in self.findings]
        return max(found, key=lambda severity: severity.rank, default=Severity.OK)

    def count(self, severity: Severity) -> int:
        """How many findings are of this severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "store": self.place,
            "worst": self.worst.value,
            "findings": [asdict(finding) for finding in self.findings],
        }
