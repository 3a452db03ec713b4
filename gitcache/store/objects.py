"""Bundles in an object store (S3, Google Cloud Storage, Azure, a folder), through obstore."""

from typing import Any

from core.errors import Invalid, Unavailable
from core.spec.bundle import digest_of
from core.spec.images import is_digest


def open_objects(url: str) -> "ObjectContent":
    """Opens the store at `s3://bucket/prefix` or any other URL that obstore supports.

    Uses the credentials of the cloud's own tools. Raises Invalid for an unknown kind of store, or
    without the extra `s3`.
    """
    try:
        from obstore.store import from_url

        return ObjectContent(from_url(url))
    except ImportError:
        raise Invalid(
            "requires the extra `s3`: install towline[s3]", field="git.store.objects"
        ) from None
    except Exception as error:
        kind = url.partition("://")[0]
        raise Invalid(f"cannot open a {kind!r} store", field="git.store.objects") from error


class ObjectContent:
    """A shared content store that outlives the replicas and their disks.

    Verifies the digest of received content, so that write access to the store is not enough to
    change applied objects.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    async def get(self, digest: str) -> bytes | None:
        """Implements `ContentStore.get`. Raises Unavailable if the store cannot be reached."""
        if not is_digest(digest):
            return None
        try:
            result = await self._store.get_async(_object_path(digest))
            data = bytes(await result.bytes_async())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise Unavailable("cannot read from the object store") from error
        return data if digest_of(data) == digest else None

    async def put(self, digest: str, data: bytes) -> None:
        """Implements `ContentStore.put`."""
        try:
            await self._store.put_async(_object_path(digest), data)
        except Exception as error:
            raise Unavailable("cannot write to the object store") from error


def _object_path(digest: str) -> str:
    name = digest.removeprefix("sha256:")
    return f"bundles/{name[:2]}/{name[2:]}"
