"""Composes the git cache; the only module that uses settings and concrete classes."""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import timedelta

from core.errors import Invalid
from core.identity import RepositoryId
from core.outbound.client import OutboundClient, OutboundRoute
from core.remotes import normalize_proxy_url
from core.runtime.atomic_files import write_atomically
from core.runtime.clock import Clock
from core.spec.bundle import Attestation
from core.spec.source import RepositorySpec
from core.spec.statements.attestation import Signer
from gitcache.charts.credentials import ChartCredentialFinder
from gitcache.charts.followed import ChartMirror
from gitcache.charts.images import RegistryImages
from gitcache.charts.source import ChartLimits, ChartSource
from gitcache.coordination.local import SoleReplica
from gitcache.decrypt.keys import SopsDecryptor
from gitcache.domain.message_auth import MessageAuthenticator, derive_key
from gitcache.mirror.cgroup_memory import container_memory
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.transport.http import address_guard
from gitcache.mirror.transport.tls import repository_context
from gitcache.oci.mirror import ArtifactMirror, ArtifactStores
from gitcache.ports import (
    ClusterEgress,
    ContentStore,
    Decryptor,
    LiveDigests,
    PeerOperations,
    Replicas,
)
from gitcache.render.pool import JobLimits, WorkerPool
from gitcache.render.signing import RenderSigner, SigningKeyFile, SigningSources
from gitcache.settings import FetchSettings, GitCacheSettings, RenderSettings, StoreSettings
from gitcache.store.eviction import Eviction, ReportedDigests
from gitcache.store.files import FileContent, FileMemo, sweep
from gitcache.store.objects import open_objects
from gitcache.sync.by_kind import ClonesByKind, RefListerByKind, TreeReaderByKind
from gitcache.sync.cache import FollowedSources, GitCache, ReplicaNetwork, Upkeep
from gitcache.sync.follower import FollowerPorts, PollIntervals
from gitcache.sync.render_service import RenderPorts, RenderService
from gitcache.sync.signed_refs import SignedRefs
from gitcache.sync.tiers import TieredContent
from gitcache.write.service import GitWriteService

_GIT_MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class ReplicaConnections:
    """Connections to other replicas; they read content from this replica's `nearest` store."""

    replicas: Replicas
    peers: PeerOperations
    nearest: FileContent
    others: ContentStore


def local_content_store(settings: GitCacheSettings) -> FileContent:
    """Makes the local content store of this replica."""
    return FileContent(settings.data_dir / "bundles", memory=settings.store.memory)


def build_git_cache(
    settings: GitCacheSettings,
    clock: Clock,
    *,
    egress: ClusterEgress | None = None,
    connections: ReplicaConnections | None = None,
    live: LiveDigests | None = None,
    decryptor: Decryptor | None = None,
) -> GitCache:
    """Composes the git cache, as a single process or as a replica; all files are in `data_dir`.

    Without `live` no bundle is ever evicted, because none is known to be unused. The default
    `decryptor` uses the keys of the settings.
    """
    data, poll = settings.data_dir, settings.poll
    specs: dict[RepositoryId, RepositorySpec] = {}
    mirror = GitMirror(
        data / "repositories", _mirror_options(settings), clock, egress=egress, followed=specs
    )
    nearest = connections.nearest if connections else local_content_store(settings)
    memo = FileMemo(data / "memos", MessageAuthenticator(_memo_key(settings), "memos"))
    eviction = _eviction(settings.store, nearest, memo, live or ReportedDigests(), clock)

    async def make_room() -> None:
        await eviction.run()
        await cache.drop_copies()

    content = TieredContent(nearest, _farther_stores(settings, connections), make_room)
    workers = WorkerPool(settings.render.workers, _job_limits(settings.render), data / "scratch")

    http = _chart_client(settings)
    accounts = ChartCredentialFinder(specs)
    charts = ChartSource(
        http,
        content,
        memo,
        workers,
        accounts,
        clock,
        ChartLimits(settings.render.chart_index_bytes, settings.render.chart_bytes),
    )

    async def open_disk() -> None:
        for root in (nearest.root, memo.root):
            await asyncio.to_thread(sweep, root)

    images, chart_mirror = RegistryImages(http, accounts, clock), ChartMirror(charts, memo)
    stores = ArtifactStores(content, memo, mirror.clones)
    artifacts = ArtifactMirror(http, accounts, workers, stores, clock, settings.render.chart_bytes)
    lister = RefListerByKind(mirror.lister, chart_mirror, artifacts)
    signed = SignedRefs(SigningSources(settings.signing.sources), lister, mirror.history, clock)
    reader = TreeReaderByKind(mirror.reader, chart_mirror)
    copies = ClonesByKind(mirror.clones, chart_mirror, artifacts)

    decryptor = decryptor or _sops_decryptor(settings)
    replicas = connections.replicas if connections else SoleReplica()
    cache = GitCache(
        FollowedSources(
            FollowerPorts(signed, copies, reader, replicas, replicas.me.name),
            PollIntervals(poll.seconds, poll.seconds_with_webhook),
            specs,
        ),
        RenderService(
            RenderPorts(reader, content, memo, workers, charts, images, decryptor, signed),
            clock,
        ),
        content,
        clock,
        ReplicaNetwork(replicas, connections.peers if connections else None),
        load_signer(settings, clock),
        upkeep=Upkeep(
            on_start=(mirror.open, open_disk, workers.start),
            on_stop=(workers.stop, content.stop, http.close, mirror.close),
            housekeeping_steps=(eviction.run,),
            meters=(mirror.meters,),
        ),
    )
    return cache


def build_write_service(
    settings: GitCacheSettings, clock: Clock, egress: ClusterEgress | None
) -> GitWriteService:
    """Composes the write side: commits and merge requests."""
    return GitWriteService(settings.data_dir / "written", _mirror_options(settings), clock, egress)


def load_signer(settings: GitCacheSettings, clock: Clock) -> RenderSigner:
    """Reads the key that signs renders and orders, or makes it at the first start.

    Raises Invalid for a malformed key file, and for replicas without one.
    """
    signing = settings.signing
    rotations: tuple[Attestation, ...] = ()
    if signing.key is None and settings.peers.key is not None:
        # Every replica must have the same key, and all of them have this secret.
        raw = derive_key(settings.peers.key.get_secret_value(), "attestations")
        signer = Signer.from_bytes(raw)
    else:
        file = signing_key_file(settings)
        signer = file.load() if signing.key else file.load_or_create()
        rotations = file.rotations()
    sources = SigningSources(signing.sources)
    return RenderSigner(signer, clock, rotations=rotations, sources=sources, powers=signing.orders)


def signing_key_file(settings: GitCacheSettings) -> SigningKeyFile:
    """Returns the file of the signing key. Raises Invalid if replicas derive the key."""
    if settings.signing.key is None and settings.peers.key is not None:
        raise Invalid(
            "is derived from git.peers.key; give it a file to rotate it", field="git.signing.key"
        )
    return SigningKeyFile(settings.signing.key or settings.data_dir / "signing.key")


def _sops_decryptor(settings: GitCacheSettings) -> Decryptor | None:
    folder = settings.render.age_keys
    return SopsDecryptor(folder) if folder is not None else None


def _memo_key(settings: GitCacheSettings) -> str:
    """Reads or generates the key of the memos' MACs, which only this replica needs."""
    path = settings.data_dir / "memos.key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, secrets.token_bytes(32))
    return path.read_bytes().hex()


def _eviction(
    settings: StoreSettings, content: FileContent, memo: FileMemo, live: LiveDigests, clock: Clock
) -> Eviction:
    keep = timedelta(days=settings.keep_days)
    return Eviction(content, memo, live, clock, keep=keep, watermark=settings.watermark)


def _farther_stores(
    settings: GitCacheSettings, connections: ReplicaConnections | None
) -> list[ContentStore]:
    stores: list[ContentStore] = [connections.others] if connections else []
    if settings.store.objects is not None:
        stores.append(open_objects(settings.store.objects))
    return stores


def _chart_client(settings: GitCacheSettings) -> OutboundClient:
    options = _mirror_options(settings)
    proxy = normalize_proxy_url(options.proxy) if options.proxy else None
    return OutboundClient(
        address_guard(allow_private_hosts=options.allow_private_hosts),
        OutboundRoute(repository_context(None, options.authority), proxy, trusted_proxy=True),
        seconds=options.fetch_seconds,
        connections=100,
        per_host=4,
    )


def _mirror_options(settings: GitCacheSettings) -> MirrorOptions:
    poll, fetch = settings.poll, settings.fetch
    return MirrorOptions(
        request_seconds=poll.request_seconds,
        fetch_seconds=fetch.seconds,
        at_once=poll.requests_per_host,
        per_second=poll.requests_per_second,
        allow_private_hosts=fetch.allow_private_hosts,
        known_hosts=fetch.known_hosts,
        proxy=fetch.proxy.get_secret_value() if fetch.proxy else None,
        authority=fetch.authority.read_text() if fetch.authority else None,
        lean_entries=fetch.lean_entries,
        large_file=fetch.large_file,
        memory=git_memory(fetch, container_memory()),
        watermark=settings.store.watermark,
        files=settings.render.files,
        total_bytes=settings.render.input_bytes,
    )


def git_memory(settings: FetchSettings, container_limit: int | None) -> int:
    """Returns the memory limit of a git process, in bytes, within the limit of the container."""
    half = _GIT_MEMORY if container_limit is None else container_limit // 2
    return settings.memory or min(half, _GIT_MEMORY)


def _job_limits(settings: RenderSettings) -> JobLimits:
    return JobLimits(
        seconds=settings.seconds,
        memory=settings.memory,
        tool_memory=settings.tool_memory,
        file_bytes=settings.input_bytes,
        jobs_per_worker=settings.jobs_per_worker,
    )
