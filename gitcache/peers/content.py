"""Bundles at other replicas, by digest."""

from collections.abc import Callable, Sequence
from functools import partial

import structlog

from core.errors import NotFound, TowlineError
from core.runtime.batcher import Batcher
from core.spec.bundle import digest_of
from gitcache.domain.placement import rank_replicas
from gitcache.peers.client import PeerClient
from gitcache.ports import PeerUnavailable, ReplicaMember

log = structlog.get_logger(__name__)

_MAX_QUERIED_REPLICAS = 4
"""Maximum number of replicas to query, best-ranked first; the best one received a copy."""


_MAX_UPLOAD_BYTES = 4 << 20
_COPY_OVERHEAD = 4 << 10
"""Weight of a copy in addition to its bytes: limits an upload to about 1,000 copies."""


class PeerContent:
    """A content store over other replicas; verifies the digest of received content."""

    def __init__(
        self, client: PeerClient, me: ReplicaMember, members: Callable[[], Sequence[ReplicaMember]]
    ) -> None:
        self._client = client
        self._me = me
        self._members = members
        self._uploaders: dict[ReplicaMember, Batcher[bytes, None]] = {}

    async def get(self, digest: str) -> bytes | None:
        """Implements `ContentStore.get`. PeerUnavailable: a replica failed."""
        has_failures = False
        for member in self._ranked_replicas(digest)[:_MAX_QUERIED_REPLICAS]:
            try:
                data = await self._client.bundle(member, digest)
            except NotFound:
                continue
            except TowlineError as error:
                log.info("reading content from peer failed", peer=member.name, reason=error.message)
                has_failures = True
                continue
            if digest_of(data) == digest:
                return data
            log.error("peer sent content with a wrong digest", peer=member.name)
        if has_failures:
            raise PeerUnavailable(
                "a replica that may have the bundle cannot be reached", retry_after=1.0
            )
        return None

    async def put(self, digest: str, data: bytes) -> None:
        """Stores a copy at the best-ranked other replica, so that it outlives this replica."""
        for member in self._ranked_replicas(digest)[:1]:
            await self._uploader_for(member).submit(data)

    def _uploader_for(self, member: ReplicaMember) -> Batcher[bytes, None]:
        if member not in self._uploaders:
            departed = self._uploaders.keys() - set(self._members())
            self._uploaders = {
                replica: uploader
                for replica, uploader in self._uploaders.items()
                if replica not in departed
            }
            upload = partial(self._upload, member)
            self._uploaders[member] = Batcher(
                upload, max_weight=_MAX_UPLOAD_BYTES, weight=lambda data: len(data) + _COPY_OVERHEAD
            )
        return self._uploaders[member]

    async def _upload(
        self, member: ReplicaMember, contents: Sequence[bytes]
    ) -> Sequence[TowlineError | None]:
        """Uploads copies to one replica; a failure applies to all of them, without retries."""
        try:
            await self._client.store_copies(member, contents)
        except TowlineError as error:
            return [error] * len(contents)
        return [None] * len(contents)

    def _ranked_replicas(self, digest: str) -> list[ReplicaMember]:
        others = {
            replica.name: replica for replica in self._members() if replica.name != self._me.name
        }
        return [others[name] for name in rank_replicas(digest, others)]
