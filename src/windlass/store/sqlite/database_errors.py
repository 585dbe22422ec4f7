"""SQLite's errors as Windlass tells them, and which SQLite is not to be trusted."""

import apsw

from windlass.errors import StoreError, StoreFull, StoreRefused, StoreUnavailable

# Another connection holds the lock, or was recovering the log: it will pass.
BUSY = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)

# Not the file's trouble but the row's.
_REFUSED = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError, apsw.RangeError)

# After these the connection is not used again: what it has in memory may not be what is on
# the disk, and a commit that failed must not be repeated blindly.
FATAL = (
    apsw.FullError,
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
)


def translate(error: apsw.Error, path: str) -> StoreError:
    """The error that the user gets for one of SQLite."""
    if isinstance(error, BUSY):
        return StoreUnavailable(f"{path} is locked by another process for too long: {error}.")
    if isinstance(error, apsw.FullError):
        return StoreFull(f"There is no room left for {path}: free some disk space.")
    if isinstance(error, apsw.NotADBError):
        return StoreError(f"{path} is not an SQLite database: choose another file.")
    if isinstance(error, apsw.CorruptError):
        return StoreError(f"{path} is damaged ({error}): restore it from a backup.")
    if isinstance(error, apsw.ReadOnlyError):
        return StoreError(f"{path} cannot be written to: check the rights of the file and folder.")
    if isinstance(error, apsw.CantOpenError):
        return StoreError(f"{path} cannot be opened: check the rights of the file and folder.")
    if isinstance(error, apsw.IOError):
        return StoreError(f"The disk failed under {path}: {error}.")
    if isinstance(error, _REFUSED):
        return StoreRefused(f"SQLite refused a row of {path}: {error}.")
    return StoreError(f"SQLite failed on {path}: {error}.")


def damaged(what: str) -> apsw.CorruptError:
    """What SQLite did not see itself, as if it had."""
    return apsw.CorruptError(what)


def loses_commits(version: tuple[int, int, int]) -> bool:
    """Whether this SQLite has the WAL-reset bug.

    When one connection resets the log while another checkpoints, 3.7.0 to 3.51.2 may lose a
    committed transaction; many processes on one file are what triggers it. The fix is in
    3.51.3 and was carried back to 3.50.7 and 3.44.6.
    """
    return (3, 7, 0) <= version <= (3, 51, 2) and version not in {(3, 50, 7), (3, 44, 6)}


def check_version(version: str) -> None:
    """Refuse an SQLite that may lose what it has committed."""
    parts = tuple(int(part) for part in version.split("."))
    major, minor, patch = (*parts, 0, 0)[:3]
    if loses_commits((major, minor, patch)):
        raise StoreError(
            f"SQLite {version} can lose committed data when several processes use one file: "
            "install apsw 3.51.3 or later."
        )
