"""Composes a replica of the git cache, and the client for other processes."""

import socket
from dataclasses import dataclass

from fleet.errors import Invalid
from fleet.runtime.clock import Clock
from gitcache.compose import Company, build, files
from gitcache.coordination.local import SoleReplica
from gitcache.coordination.redis import RedisReplicas, Terms
from gitcache.domain.seals import Seal
from gitcache.peers.authority import Contexts, contexts
from gitcache.peers.client import PeerClient
from gitcache.peers.content import PeerContent
from gitcache.peers.remote import RemoteGitCache
from gitcache.peers.service import Service
from gitcache.ports import Decryptor, Egress, LiveDigests, Member, Replicas
from gitcache.settings import GitCacheSettings, PeerSettings
from gitcache.store.eviction import ToldLive
from gitcache.sync.cache import GitCache


@dataclass(frozen=True, slots=True)
class Replica:
    """A git cache, its internal API, and the TLS contexts to serve it with.

    `name` is unique among the replicas.
    """

    name: str
    cache: GitCache
    service: Service
    tls: Contexts


def build_replica(
    settings: GitCacheSettings,
    clock: Clock,
    redis: str | None,
    listens: str,
    *,
    egress: Egress | None = None,
    live: LiveDigests | None = None,
    decryptor: Decryptor | None = None,
) -> Replica:
    """Composes a replica that other processes reach at `listens` (host:port).

    Without `redis` it is the only replica. Without `live`, control planes report the digests in
    use. Raises Invalid for missing settings.
    """
    peers = settings.peers
    key = _key(peers)
    me = Member(peers.name or socket.gethostname(), peers.address or listens)
    if " " in me.name + me.address:
        raise Invalid("name and address must not contain spaces", field="git.peers")
    tls = contexts(key, me.name, clock.now())
    replicas: Replicas = SoleReplica()
    if redis is not None:
        replicas = RedisReplicas(redis, me, Seal(key), clock, _terms(peers))
    nearest, told = files(settings), ToldLive()
    client = PeerClient(tls.client, hop=True, nearest=nearest)
    company = Company(replicas, client, nearest, PeerContent(client, me, replicas.members))
    cache = build(
        settings,
        clock,
        egress=egress,
        company=company,
        live=live or told,
        decryptor=decryptor,
    )
    return Replica(me.name, cache, Service(cache, nearest, told.tell), tls)


def build_remote(
    settings: PeerSettings,
    clock: Clock,
    live: LiveDigests | None = None,
    *,
    look_seconds: float = 10.0,
) -> RemoteGitCache:
    """Composes the client of the git cache at `settings.servers`.

    Asks these servers for others every `look_seconds`. Raises Invalid without a key.
    """
    tls = contexts(_key(settings), "control plane", clock.now())
    client = PeerClient(tls.client, hop=False)
    return RemoteGitCache(client, settings.servers, clock, live, look_seconds=look_seconds)


def _key(settings: PeerSettings) -> str:
    if settings.key is None:
        raise Invalid(
            "replicas need a shared key; generate one with `openssl rand -hex 32`",
            field="git.peers.key",
        )
    return settings.key.get_secret_value()


def _terms(settings: PeerSettings) -> Terms:
    if settings.lease_seconds < 3 * settings.heartbeat_seconds:
        raise Invalid("must be at least three heartbeats", field="git.peers.lease_seconds")
    return Terms(settings.heartbeat_seconds, settings.lease_seconds)
