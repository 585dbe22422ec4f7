"""Time zones by name: from the machine's zone data, or else from the `tzdata` package."""

import os
import sys
import zoneinfo
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

from windlass.errors import BadOption

LOCAL = "local"
"""What stands for the machine's own zone. It is resolved at once: a stored name is an IANA name."""

_LOCALTIME = Path("/etc/localtime")


def parse_zone(name: str) -> ZoneInfo:
    """Return the zone of that IANA name, or the machine's own for "local".

    Raises BadOption with the nearest names for an unknown one.

    >>> parse_zone("Europe/Berlin").key
    'Europe/Berlin'
    """
    if not isinstance(name, str):
        raise BadOption("timezone", f"{name!r} is not the name of a zone, such as 'Europe/Berlin'")
    if name == LOCAL:
        return ZoneInfo(local_zone_name())
    if not _is_known(name):
        raise BadOption("timezone", f"there is no zone {name[:100]!r}{_hint(name)}")
    return ZoneInfo(name)


def local_zone_name(
    environ: Mapping[str, str] = os.environ, localtime: Path = _LOCALTIME, platform: str = ""
) -> str:
    """Return the IANA name of the machine's zone, by TZ or else by /etc/localtime.

    Raises BadOption where the machine has a zone without such a name.
    """
    given = environ.get("TZ")
    if given is not None:
        name = _below_zoneinfo(given.removeprefix(":")) or "UTC"
        if not _is_known(name):
            raise BadOption("timezone", f"'local' is {given!r} by TZ, which is no IANA name")
        return name
    if (platform or sys.platform) == "win32":
        raise BadOption("timezone", "'local' has no IANA name on Windows: set TZ, or name the zone")
    if not localtime.exists():
        return "UTC"  # as the C library has it
    name = _below_zoneinfo(os.path.realpath(localtime))
    if _is_known(name):
        return name
    # A copy instead of a link, as when a container is given its host's file.
    copy = _same_zone(localtime.read_bytes())
    if copy is None:
        raise BadOption("timezone", f"'local' is {localtime}, which is like no IANA zone")
    return copy


def _below_zoneinfo(path: str) -> str:
    name = path.rpartition("zoneinfo/")[2]
    return name.removeprefix("posix/").removeprefix("right/")


@lru_cache(maxsize=1)
def _packaged() -> frozenset[str]:
    """The names in the `tzdata` package: one small file, read where hundreds would be."""
    try:
        listed = resources.files("tzdata").joinpath("zones").read_text("utf-8")
    except (ImportError, OSError):
        return frozenset()
    return frozenset(listed.split())


@lru_cache(maxsize=1)
def _installed() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _is_known(name: str) -> bool:
    # By the lists rather than by trying: ZoneInfo opens a path, and would find "europe/berlin" on
    # a file system that ignores case, or a zone that counts leap seconds ("right/…").
    return name in _packaged() or name in _installed()


def _same_zone(data: bytes) -> str | None:
    for root in zoneinfo.TZPATH:
        for name in sorted(_packaged() | _installed(), key=_commonness):
            path = Path(root, name)
            if path.is_file() and path.read_bytes() == data:
                return name
    return None


def _commonness(name: str) -> tuple[bool, str]:
    # Most zones have several names; those with a continent are the ones people know.
    return ("/" not in name and name != "UTC", name)


def _hint(name: str) -> str:
    from difflib import get_close_matches  # every command would wait for it

    by_lower = {known.lower(): known for known in sorted(_packaged() | _installed())}
    asked = name.strip().lower().replace(" ", "_")[:100]
    near = [by_lower[asked]] if asked in by_lower else []
    near += [known for lower, known in by_lower.items() if lower.rpartition("/")[2] == asked]
    near += [by_lower[lower] for lower in get_close_matches(asked, by_lower, n=3)]
    if not near:
        return "; zones are named as 'Europe/Berlin', or 'UTC', or 'local' for the machine's own"
    return f"; near it are {', '.join(repr(known) for known in [*dict.fromkeys(near)][:3])}"
