"""Dedupe keys: which run has one, and when it is free.

A key has expired, or it belongs to a run. One that was taken with ``unique="live"`` is free again
when its run has ended. Nobody notes that when the run ends: whoever asks for the key looks at its
run.
"""

from windlass.codec import canonical_hash
from windlass.domain.run import NewRun
from windlass.errors import KeyConflict, KeyTaken
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import micros_of, new_blob, to_id


class Known:
    """Which ids and keys have a run already, in the store or earlier in the batch."""

    def __init__(self, tx: OpenTransaction) -> None:
        self._tx = tx
        self._ids: set[tuple[str, bytes]] = set()
        self._keys: dict[tuple[str, str, str], tuple[bytes, str]] = {}
        self._taken: list[Row] = []

    def owner(self, run: NewRun) -> bytes | None:
        """Return the run that answers for this one; None: it is new, and now known."""
        name = (run.tenant, new_blob(run.id, run.job))
        if name in self._ids or self._tx.fetch_one("known_run", name) is not None:
            return name[1]
        if run.key is not None:
            owner = self._key_owner(run, run.key, name[1])
            if owner is not None:
                return owner
        self._ids.add(name)
        return None

    def write(self) -> None:
        """Write the keys that the batch took."""
        self._tx.execute_many("take_key", self._taken)

    def _key_owner(self, run: NewRun, key: str, blob: bytes) -> bytes | None:
        full = (run.tenant, run.job, key)
        digest = canonical_hash(run.input)
        live = int(run.frees_key)
        found = self._keys.get(full) or self._tx.fetch_one("known_key", (*full, self._tx.now, live))
        if found is None:
            expires_at = None if run.key_ttl is None else self._tx.now + micros_of(run.key_ttl)
            if expires_at is None or expires_at > self._tx.now:
                self._keys[full] = (blob, digest)
            self._taken.append((*full, blob, digest, expires_at, live))
            return None
        owner, known_digest = found
        if known_digest != digest:
            raise KeyConflict(run.job, key, to_id(owner))
        return bytes(owner)


def keep_key(tx: OpenTransaction, job: tuple[str, str], run: bytes, key: str, input: str) -> None:
    """A run whose key is its own while it lives is about to live again.

    `job` is its tenant and name. Raises KeyTaken if the key is another live run's.
    """
    found = tx.fetch_one("key_owner", (tx.now, *job, key))
    if found is not None:
        owner, is_free = found
        if owner == run:
            return
        if not is_free:
            raise KeyTaken(job[1], key, to_id(owner))
    tx.execute("take_key", (*job, key, run, canonical_hash(input), None, 1))
