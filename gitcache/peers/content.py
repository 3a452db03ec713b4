"""Bundles that lie at other replicas, found by their digest."""

from collections.abc import Callable, Sequence

import structlog

from fleet.bundle import digest_of
from fleet.errors import NotFound, TowlineError
from gitcache.domain.placement import ranked
from gitcache.peers.client import PeerClient
from gitcache.ports import Member, PeerAway

log = structlog.get_logger(__name__)

_ASKED = 4
"""So many of the best-ranked replicas are asked; the best one was given a copy."""


class PeerContent:
    """Other replicas as a content store: what they give counts only if its digest is right."""

    def __init__(
        self, client: PeerClient, me: Member, members: Callable[[], Sequence[Member]]
    ) -> None:
        self._client = client
        self._me = me
        self._members = members

    async def get(self, digest: str) -> bytes | None:
        """As `ContentStore.get`. PeerAway: nobody has it, but one that may did not answer."""
        is_away = False
        for member in self._ranked(digest)[:_ASKED]:
            try:
                data = await self._client.bundle(member, digest)
            except NotFound:
                continue
            except TowlineError as error:
                log.info("peer not asked for content", peer=member.name, reason=error.message)
                is_away = True
                continue
            if digest_of(data) == digest:
                return data
            log.error("a peer gave other content than asked for, refused", peer=member.name)
        if is_away:
            raise PeerAway("a replica that may have the bundle does not answer", retry_after=1.0)
        return None

    async def put(self, digest: str, data: bytes) -> None:
        """Give the best-ranked other replica a copy, which outlives this one."""
        for member in self._ranked(digest)[:1]:
            await self._client.keep(member, digest, data)

    def _ranked(self, digest: str) -> list[Member]:
        others = {one.name: one for one in self._members() if one.name != self._me.name}
        return [others[name] for name in ranked(digest, others)]
