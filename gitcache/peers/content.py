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

_ASKED = 4
"""Number of best-ranked replicas to query; the best one received a copy."""


_COPIED_AT_ONCE = 4 << 20
_EACH = 4 << 10
"""Weight of a copy in addition to its bytes: limits an upload to about 1,000 copies."""


class PeerContent:
    """A content store over other replicas; verifies the digest of received content."""

    def __init__(
        self, client: PeerClient, me: ReplicaMember, members: Callable[[], Sequence[ReplicaMember]]
    ) -> None:
        self._client = client
        self._me = me
        self._members = members
        self._copying: dict[ReplicaMember, Batcher[bytes, None]] = {}

    async def get(self, digest: str) -> bytes | None:
        """Implements `ContentStore.get`. Raises PeerAway if not found and a replica failed."""
        is_away = False
        for member in self._ranked(digest)[:_ASKED]:
            try:
                data = await self._client.bundle(member, digest)
            except NotFound:
                continue
            except TowlineError as error:
                log.info("reading content from peer failed", peer=member.name, reason=error.message)
                is_away = True
                continue
            if digest_of(data) == digest:
                return data
            log.error("peer sent content with a wrong digest", peer=member.name)
        if is_away:
            raise PeerUnavailable(
                "a replica that may have the bundle cannot be reached", retry_after=1.0
            )
        return None

    async def put(self, digest: str, data: bytes) -> None:
        """Stores a copy at the best-ranked other replica, so that it outlives this replica."""
        for member in self._ranked(digest)[:1]:
            await self._copies_to(member).ask(data)

    def _copies_to(self, member: ReplicaMember) -> Batcher[bytes, None]:
        if member not in self._copying:
            gone = self._copying.keys() - set(self._members())
            self._copying = {
                replica: at for replica, at in self._copying.items() if replica not in gone
            }
            work = partial(self._give, member)
            self._copying[member] = Batcher(
                work, most=_COPIED_AT_ONCE, weight=lambda data: len(data) + _EACH
            )
        return self._copying[member]

    async def _give(
        self, member: ReplicaMember, contents: Sequence[bytes]
    ) -> Sequence[TowlineError | None]:
        """Uploads copies to one replica; a failure applies to all of them, without retries."""
        try:
            await self._client.keep(member, contents)
        except TowlineError as error:
            return [error] * len(contents)
        return [None] * len(contents)

    def _ranked(self, digest: str) -> list[ReplicaMember]:
        others = {
            replica.name: replica for replica in self._members() if replica.name != self._me.name
        }
        return [others[name] for name in rank_replicas(digest, others)]
