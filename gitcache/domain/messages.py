"""Operations of replicas, and their JSON messages.

Received messages are validated against their types and bounded in size.
"""

import struct
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from core.errors import Invalid
from core.identity import RepositoryId
from core.spec.bundle import Attestation
from core.spec.source import Commit, RenderedBundle, RenderRequest, RepositorySpec, RepositoryState
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity

MAX_MESSAGE = 16 << 20
"""Maximum bytes of one message; a state of 10,000 refs has about 3 MB."""

_LENGTH = struct.Struct(">I")
_BYTES_AS_TEXT = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

Value = TypeVar("Value")
Query = TypeVar("Query")
Result = TypeVar("Result")


class JsonCodec(Generic[Value]):
    """JSON codec for one type."""

    def __init__(self, kind: type[Value]) -> None:
        # pydantic applies a configuration to dataclasses only inside another type: hence the tuple.
        wrapped: Any = types.GenericAlias(tuple, (kind,))
        self._adapter: TypeAdapter[tuple[Value]] = TypeAdapter(wrapped, config=_BYTES_AS_TEXT)

    def encode(self, value: Value) -> bytes:
        """Encodes a value as JSON."""
        return self._adapter.dump_json((value,))

    def decode(self, data: bytes) -> Value:
        """Decodes a value. Raises Invalid with the position, but without the content."""
        if len(data) > MAX_MESSAGE:
            raise Invalid(f"more than {MAX_MESSAGE:,} bytes in one message")
        try:
            return self._adapter.validate_json(data)[0]
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field_path = ".".join(str(part) for part in first["loc"])
            raise Invalid(
                f"malformed message: {first['type']} at {field_path[:80] or 'its start'}"
            ) from None


@dataclass(frozen=True, slots=True)
class Hint:
    """A webhook's announcement: full ref to commit; None without details."""

    repository_id: RepositoryId
    announced: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TreeIdsRequest:
    """A request for the tree ids of paths of a commit."""

    repository_id: RepositoryId
    commit: str
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubfoldersRequest:
    """A request for the folders of a commit, at most `depth` levels below a base."""

    repository_id: RepositoryId
    commit: str
    base: str
    depth: int


@dataclass(frozen=True, slots=True)
class FilesRequest:
    """A request for the files of a commit below a folder whose names have one of the endings."""

    repository_id: RepositoryId
    commit: str
    folder: str
    endings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResolveRequest:
    """A request for the commit of a branch, tag or sha."""

    repository_id: RepositoryId
    name: str


@dataclass(frozen=True, slots=True)
class FollowUpdate:
    """Repositories to follow, with credentials, and repositories to forget."""

    follow: tuple[RepositorySpec, ...] = ()
    forget: tuple[RepositoryId, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaAddresses:
    """Addresses (`host:port`) of a replica and of all replicas."""

    me: str
    members: tuple[str, ...]


class _NoContent(JsonCodec[None]):
    """Codec of operations without a result: an empty body."""

    def __init__(self) -> None: ...

    def encode(self, value: None) -> bytes:
        return b""

    def decode(self, data: bytes) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Operation(Generic[Query, Result]):
    """An operation of a replica: the path of its POST requests, and codecs of query and result.

    A replica answers a `quick` one before it acts.
    """

    path: str
    query: JsonCodec[Query]
    result: JsonCodec[Result]
    quick: bool = False


_PATHS: JsonCodec[list[str]] = JsonCodec(list[str])
_TREE_IDS: JsonCodec[dict[str, str | None]] = JsonCodec(dict[str, str | None])
_CONTENTS: JsonCodec[dict[str, bytes]] = JsonCodec(dict[str, bytes])
_ORDERS: JsonCodec[list[OrderRequest]] = JsonCodec(list[OrderRequest])
_ATTESTATIONS: JsonCodec[list[Attestation]] = JsonCodec(list[Attestation])

TREES = Operation("/v1/trees", JsonCodec(TreeIdsRequest), _TREE_IDS)
FOLDERS = Operation("/v1/folders", JsonCodec(SubfoldersRequest), _PATHS)
FILES = Operation("/v1/files", JsonCodec(FilesRequest), _CONTENTS)
RESOLVE = Operation("/v1/resolve", JsonCodec(ResolveRequest), JsonCodec(Commit))
RENDER = Operation("/v1/render", JsonCodec(RenderRequest), JsonCodec(RenderedBundle))
HINT = Operation("/v1/hint", JsonCodec(Hint), _NoContent(), quick=True)
FOLLOW = Operation("/v1/wishes", JsonCodec(FollowUpdate), _NoContent())
LIVE_DIGESTS = Operation("/v1/live", _PATHS, _NoContent())
SIGN_ORDERS = Operation("/v1/orders", _ORDERS, _ATTESTATIONS)
RENEW = Operation("/v1/attestation", _ATTESTATIONS, _ATTESTATIONS)

STATE = JsonCodec(RepositoryState)
REPLICA_ADDRESSES = JsonCodec(ReplicaAddresses)
SIGNING_IDENTITIES: JsonCodec[list[SigningIdentity]] = JsonCodec(list[SigningIdentity])


def join_contents(contents: Sequence[bytes]) -> bytes:
    """Joins contents, each prefixed with its length."""
    return b"".join(part for content in contents for part in (_LENGTH.pack(len(content)), content))


def split_contents(data: bytes) -> list[bytes]:
    """Splits the output of `join_contents`. Raises Invalid for malformed data."""
    contents, position = [], 0
    while position < len(data):
        start = position + _LENGTH.size
        if start > len(data):
            raise Invalid("joined contents end inside a length prefix")
        position = start + _LENGTH.unpack_from(data, position)[0]
        if position > len(data):
            raise Invalid("joined contents are cut off")
        contents.append(data[start:position])
    return contents
