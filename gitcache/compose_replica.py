"""Composes a replica of the git cache, and the client for other processes."""

import socket
from dataclasses import dataclass

from core.errors import Invalid
from core.runtime.clock import Clock
from gitcache.compose import ReplicaConnections, build_git_cache, local_content_store
from gitcache.coordination.local import SoleReplica
from gitcache.domain.message_auth import MessageAuthenticator
from gitcache.peers.api import PeerApi
from gitcache.peers.client import PeerClient
from gitcache.peers.content import PeerContent
from gitcache.peers.remote import RemoteGitCache
from gitcache.peers.tls import PeerTlsContexts, make_tls_contexts
from gitcache.ports import ClusterEgress, Decryptor, LiveDigests, ReplicaMember, Replicas
from gitcache.settings import GitCacheSettings, PeerSettings
from gitcache.store.eviction import ReportedDigests
from gitcache.sync.cache import GitCache


@dataclass(frozen=True, slots=True)
class Replica:
    """A git cache, its internal API, and the TLS contexts to serve it with.

    `name` is unique among the replicas.
    """

    name: str
    cache: GitCache
    service: PeerApi
    tls: PeerTlsContexts


def build_replica(
    settings: GitCacheSettings,
    clock: Clock,
    redis: str | None,
    listen_address: str,
    *,
    egress: ClusterEgress | None = None,
    live: LiveDigests | None = None,
    decryptor: Decryptor | None = None,
) -> Replica:
    """Composes a replica that other processes reach at `listen_address` (host:port).

    Without `redis` it is the only replica. Without `live`, control planes report the digests in
    use. Raises Invalid for missing settings.
    """
    peers = settings.peers
    shared_key = _shared_key(peers)
    me = ReplicaMember(peers.name or socket.gethostname(), peers.address or listen_address)
    if " " in me.name + me.address:
        raise Invalid("name and address must not contain spaces", field="git.peers")
    tls = make_tls_contexts(shared_key, me.name, clock.now())
    authenticator = MessageAuthenticator(shared_key)
    replicas: Replicas = (
        SoleReplica() if redis is None else _redis_replicas(redis, me, authenticator, clock, peers)
    )
    nearest, reported = local_content_store(settings), ReportedDigests()
    client = PeerClient(tls.client, hop=True, nearest=nearest)
    connections = ReplicaConnections(
        replicas, client, nearest, PeerContent(client, me, replicas.members)
    )
    cache = build_git_cache(
        settings,
        clock,
        egress=egress,
        connections=connections,
        live=live or reported,
        decryptor=decryptor,
    )
    return Replica(me.name, cache, PeerApi(cache, nearest, reported.set_digests), tls)


def build_remote(
    settings: PeerSettings,
    clock: Clock,
    live: LiveDigests | None = None,
    *,
    discovery_seconds: float = 10.0,
) -> RemoteGitCache:
    """Composes the client of the git cache at `settings.servers`.

    Asks these servers for others every `discovery_seconds`. Raises Invalid without a key.
    """
    tls = make_tls_contexts(_shared_key(settings), "control plane", clock.now())
    client = PeerClient(tls.client, hop=False)
    return RemoteGitCache(
        client, settings.servers, clock, live, discovery_seconds=discovery_seconds
    )


def _shared_key(settings: PeerSettings) -> str:
    if settings.key is None:
        raise Invalid(
            "replicas need a shared key; generate one with `openssl rand -hex 32`",
            field="git.peers.key",
        )
    return settings.key.get_secret_value()


def _redis_replicas(
    url: str,
    me: ReplicaMember,
    authenticator: MessageAuthenticator,
    clock: Clock,
    settings: PeerSettings,
) -> Replicas:
    if settings.lease_seconds < 3 * settings.heartbeat_seconds:
        raise Invalid("must be at least three heartbeats", field="git.peers.lease_seconds")
    # The library of Redis prolongs a start by a tenth.
    from gitcache.coordination.redis import LeaseTerms, RedisReplicas

    terms = LeaseTerms(settings.heartbeat_seconds, settings.lease_seconds)
    return RedisReplicas(url, me, authenticator, clock, terms)
