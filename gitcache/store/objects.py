"""Bundles in an object store (S3, Google Cloud Storage, Azure, a folder), through obstore."""

import importlib
import re
from typing import Any

from fleet.bundle import digest_of
from fleet.errors import Invalid, Unavailable

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def open_objects(url: str) -> "ObjectContent":
    """The store at `s3://bucket/prefix` or any URL that obstore knows.

    Credentials come from where the cloud's own tools take them. Invalid: no such kind of store,
    or the extra `s3` is not installed.
    """
    try:
        stores = importlib.import_module("obstore.store")
        return ObjectContent(stores.from_url(url))
    except ImportError:
        raise Invalid("needs the extra `s3` of this package", field="git.store.objects") from None
    except Exception as error:
        kind = url.partition("://")[0]
        raise Invalid(f"cannot open a {kind!r} store", field="git.store.objects") from error


class ObjectContent:
    """A content store for all replicas; outlives each of them, and their disks.

    What comes from it is verified: who may write there cannot change what is applied.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    async def get(self, digest: str) -> bytes | None:
        """Implements `ContentStore.get`. Unavailable: the store does not answer."""
        if not _DIGEST.fullmatch(digest):
            return None
        try:
            found = await self._store.get_async(_place(digest))
            data = bytes(await found.bytes_async())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise Unavailable("the object store does not answer") from error
        return data if digest_of(data) == digest else None

    async def put(self, digest: str, data: bytes) -> None:
        """Implements `ContentStore.put`."""
        try:
            await self._store.put_async(_place(digest), data)
        except Exception as error:
            raise Unavailable("the object store does not take content") from error


def _place(digest: str) -> str:
    name = digest.removeprefix("sha256:")
    return f"bundles/{name[:2]}/{name[2:]}"
