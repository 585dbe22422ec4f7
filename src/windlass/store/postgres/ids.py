"""Run ids on their way to PostgreSQL: what is no UUID names no run, and is no error of SQL."""

import re
from collections.abc import Iterable, Sequence

from windlass.domain.run import NewRun
from windlass.errors import BadArguments

_HEX = "[0-9a-fA-F]"
_ID = re.compile(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}")
_NOBODY = "00000000-0000-0000-0000-000000000000"  # a UUID that no run has


def is_id(text: str) -> bool:
    """Whether the text has the form of a run's id."""
    return _ID.fullmatch(text) is not None


def id_or_nobody(text: str) -> str:
    """The id, or one that no run has."""
    return text if is_id(text) else _NOBODY


def only_ids(texts: Iterable[str]) -> Sequence[str]:
    """Those of the texts that may name a run."""
    return [text for text in texts if is_id(text)]


def check_new(runs: Iterable[NewRun]) -> None:
    """Refuse ids, made by a client for new runs, that are none."""
    for run in runs:
        if not is_id(run.id):
            raise BadArguments(
                run.job, f"was enqueued with the id {run.id!r}, which is not a UUID", "id"
            )
