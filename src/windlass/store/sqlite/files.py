"""The file itself: which one is meant, whose it is, and whether it is on a disk of this host."""

import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote

from windlass.errors import BadOption, StoreError

_SCHEME = "sqlite:///"
_MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
COMPANIONS = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database
BESIDE = ("-ballast", "-wake")  # and what we do
REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "fuse.sshfs"})


def parse_path(place: str | Path) -> Path:
    """Return the file that a path or a ``sqlite:///`` URL names."""
    text = str(place)
    if text.startswith("sqlite:"):
        if not text.startswith(_SCHEME):
            raise BadOption("url", f"{text} needs three slashes, as in sqlite:///windlass.db")
        text = unquote(text.removeprefix(_SCHEME), errors="surrogateescape")
    if text in ("", ":memory:"):
        raise BadOption("url", "the processes of Windlass share a file: name one")
    # In the characters of this process's locale, which may be ASCII: what the URL says is UTF-8.
    text = os.fsdecode(text.encode("utf-8", "surrogateescape"))
    # By its real path: whoever comes by a link must find the same log, bell and ballast.
    return Path(text).resolve()


def name_of(path: Path) -> str:
    """Return the name by which SQLite opens a file: always in UTF-8, whatever the locale is."""
    try:
        return os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise StoreError(f"The name of {path} is not UTF-8: choose another file.") from None


def prepare_file(path: Path) -> None:
    """Make the file, for its owner alone; -wal and -shm take their rights from it."""
    refuse_remote(path, mounts())
    refuse_orphan(path)
    try:
        # O_EXCL: an existing file is never opened here. Closing any descriptor of a database
        # would drop all locks that this process has on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise StoreError(f"{path} is a folder: name a file in it.") from None
        refuse_other_names(path, found.st_nlink, mounts())
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"The folder {path.parent} does not exist: create it, or name another file."
        ) from None
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error.strerror}.") from error


def refuse_orphan(path: Path) -> None:
    """Refuse to make a file beside a log that is left of another: SQLite would remove that."""
    log = path.with_name(f"{path.name}{COMPANIONS[0]}")
    try:
        size = log.stat().st_size
    except OSError:  # there is none, or the last one to close the file has just removed it
        return
    if size and not path.exists():
        raise StoreError(
            f"{path} is gone, and its log {log.name} is still there with what was written last: "
            "put the file back, or remove the log to begin with an empty store."
        )


def refuse_remote(path: Path, table: str) -> None:
    """Refuse a file that other hosts may use: they would not see each other's locks."""
    kind = filesystem_of(path, table)
    if kind in REMOTE:
        raise StoreError(
            f"{path} is on a network disk ({kind}), where processes would damage it: "
            "choose a file on a local disk, or PostgreSQL."
        )


def filesystem_of(path: Path, table: str) -> str:
    """The kind of file system that a file is on; empty where that cannot be told.

    ``table`` is in the form of /proc/mounts; of two mounts on one folder the later counts.
    """
    best, kind = 0, ""
    for line in table.split("\n"):
        _, _, rest = line.partition(" ")
        where, _, rest = rest.partition(" ")
        folder = _place(where)
        if path.is_relative_to(folder) and len(folder.parts) >= best:
            best, kind = len(folder.parts), rest.partition(" ")[0]
    return kind


def refuse_other_names(path: Path, links: int, table: str) -> None:
    """Refuse a file that can be reached in another folder: there it would get another log."""
    if links > 1:
        raise StoreError(
            f"{path} has {links} names (hard links), and each would get a log of its own: "
            "remove all but one."
        )
    places = [line.split(" ")[1] for line in table.split("\n") if line.count(" ") > 1]
    if path in map(_place, places):
        raise StoreError(
            f"{path} is mounted by itself, so its log would not be where others look for it: "
            "mount its folder instead."
        )


def mounts() -> str:
    """What is mounted where, as /proc/mounts tells it; empty where there is none."""
    try:
        return os.fsdecode(_MOUNTS.read_bytes())
    except OSError:
        return ""


def _place(where: str) -> Path:
    """Where something is mounted: blanks and the like are written as octal numbers, one a byte."""
    told = os.fsencode(where)
    return Path(os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), told)))
