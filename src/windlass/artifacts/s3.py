"""Artifacts in a bucket of an S3-compatible service.

The setting is ``s3://bucket/prefix?endpoint=http://host:9000&region=eu-central-1``; credentials
come from the environment, as AWS tools have it (``AWS_ACCESS_KEY_ID``, instance roles). Large bytes
are uploaded in parts, which appear as one object at the end; an upload that a crash left behind is
for the bucket's lifecycle rule to remove.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from windlass.artifacts.place import CHUNK, Kept
from windlass.errors import BadOption, PlaceUnavailable, UsageError

if TYPE_CHECKING:
    from obstore.store import S3Store

_PART = 8 * CHUNK  # of an upload
_OPTIONS = {"endpoint": "endpoint", "region": "region"}


class _Watched:
    """Pieces on their way to a client that hides what they raise."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
        except BaseException as error:
            self.error = error
            raise


class S3Place:
    """Bytes as objects: ``prefix/tenant/run/id``."""

    def __init__(self, bucket: str, prefix: str, **options: str) -> None:
        if find_spec("obstore") is None:
            raise UsageError("Artifacts in a bucket need their client: pip install 'windlass[s3]'.")
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._options = options

    @classmethod
    def at(cls, url: str) -> "S3Place":
        """The place that a URL names. Raises BadOption."""
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query))
        unknown = sorted(given.keys() - _OPTIONS.keys())
        if not parts.netloc or unknown:
            why = f"{unknown[0]} is not endpoint or region" if unknown else "it names no bucket"
            raise BadOption("artifacts", why)
        return cls(parts.netloc, parts.path, **{_OPTIONS[name]: given[name] for name in given})

    @cached_property
    def _store(self) -> "S3Store":
        from obstore.store import S3Store

        plain = self._options.get("endpoint", "").startswith("http://")
        options: dict[str, Any] = dict(self._options)
        if plain:
            options["client_options"] = {"allow_http": True}
        return S3Store(self._bucket, prefix=self._prefix or None, **options)

    def write(self, key: str, chunks: Iterator[bytes]) -> None:
        """Keep bytes, durably."""
        import obstore

        source = _Watched(chunks)
        try:
            with self._trouble():
                obstore.put(self._store, key, iter(source), use_multipart=True, chunk_size=_PART)
        except FileNotFoundError as error:
            raise PlaceUnavailable(f"s3://{self._bucket}", "there is no such bucket") from error
        except PlaceUnavailable:
            if source.error is not None:  # not the service's: the client has wrapped it
                raise source.error from None
            raise

    @contextmanager
    def read(self, key: str, offset: int, length: int) -> Iterator[Iterator[bytes]]:
        """A part of the bytes, in chunks."""
        yield self._chunks(key, offset, length)

    def delete(self, key: str) -> None:
        """Remove an object."""
        import obstore

        try:
            with self._trouble():
                obstore.delete(self._store, key)
        except FileNotFoundError:
            pass

    def kept(self, tenant: str) -> Iterator[Kept]:
        """All objects of a tenant."""
        import obstore

        with self._trouble():
            for page in obstore.list(self._store, prefix=tenant):
                for found in page:
                    yield Kept(found["path"], found["last_modified"])

    def clear(self, before: datetime) -> int:
        """Unfinished uploads are not seen as objects."""
        return 0

    def _chunks(self, key: str, offset: int, length: int) -> Iterator[bytes]:
        import obstore

        if length == 0:  # a range of nothing is refused by the service
            with self._trouble():
                obstore.head(self._store, key)
            return
        with self._trouble():
            span = (offset, offset + length)
            found = obstore.get(self._store, key, options={"range": span})
            for chunk in found.stream(min_chunk_size=CHUNK):
                yield bytes(chunk)

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """Turn the client's errors into ours."""
        from obstore.exceptions import BaseError, NotFoundError

        try:
            yield
        except (NotFoundError, FileNotFoundError) as error:
            raise FileNotFoundError(str(error)) from error
        except BaseError as error:
            why = str(error).splitlines()[0]
            raise PlaceUnavailable(f"s3://{self._bucket}", why) from error
