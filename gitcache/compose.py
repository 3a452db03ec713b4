"""Composes the git cache; the only module that uses settings and concrete classes."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from fleet.attestation import Signer
from fleet.remotes import checked_proxy
from fleet.runtime.clock import Clock
from fleet.runtime.files import write_whole
from gitcache.charts.catalogue import Catalogue
from gitcache.charts.fetcher import Fetcher
from gitcache.charts.mirror import ChartMirror
from gitcache.charts.source import ChartSource
from gitcache.coordination.local import SoleReplica
from gitcache.decrypt.keys import SopsDecryptor
from gitcache.domain.seals import Seal, derived
from gitcache.mirror.admission import Admission
from gitcache.mirror.containment import container_memory
from gitcache.mirror.mirror import Mirror, MirrorOptions
from gitcache.mirror.tls import client_context
from gitcache.ports import ContentStore, Decryptor, Egress, LiveDigests, Peers, Replicas
from gitcache.render.pool import Limits, WorkerPool
from gitcache.settings import FetchSettings, GitCacheSettings, RenderSettings
from gitcache.store.eviction import Eviction, ToldLive
from gitcache.store.files import FileContent, FileMemo, sweep
from gitcache.store.objects import open_objects
from gitcache.sync.cache import GitCache
from gitcache.sync.follower import Pace, Source
from gitcache.sync.kinds import Copies, Listers, Readers
from gitcache.sync.renders import Renders
from gitcache.sync.tiers import TieredContent
from gitcache.write.side import WriteSide

_GIT_MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class Company:
    """Connections to other replicas; they read content from this replica's `nearest` store."""

    replicas: Replicas
    peers: Peers
    nearest: ContentStore
    others: ContentStore


def files(settings: GitCacheSettings) -> FileContent:
    """Makes the local content store of this replica."""
    return FileContent(settings.data_dir / "bundles", memory=settings.store.memory)


def build(
    settings: GitCacheSettings,
    clock: Clock,
    *,
    egress: Egress | None = None,
    company: Company | None = None,
    live: LiveDigests | None = None,
    decryptor: Decryptor | None = None,
) -> GitCache:
    """Composes the git cache, as a single process or as a replica; all files are in `data_dir`.

    Without `live` no bundle is ever evicted, because none is known to be unused. The default
    `decryptor` uses the keys of the settings.
    """
    data, poll = settings.data_dir, settings.poll
    mirror = Mirror(data / "repositories", _mirror_options(settings), clock, egress=egress)
    eviction = _eviction(settings, live or ToldLive(), clock)

    async def make_room() -> None:
        await eviction.run()
        await cache.drop_copies()

    content = _tiers(settings, company, make_room)
    key = _signing_key(settings)
    memo = FileMemo(data / "memos", Seal(key.hex(), "memos"))
    workers = WorkerPool(settings.render.workers, _limits(settings.render), data / "scratch")

    admission = Admission(allow_private_hosts=settings.fetch.allow_private_hosts)
    fetcher = _fetcher(settings, admission)
    charts = ChartSource(
        fetcher,
        content,
        memo,
        workers,
        clock,
        index_bytes=settings.render.chart_index_bytes,
        archive_bytes=settings.render.chart_bytes,
    )

    async def open_disk() -> None:
        for root in (data / "bundles", data / "memos"):
            await asyncio.to_thread(sweep, root)

    catalogue = Catalogue(charts, memo, clock)
    places = ChartMirror(catalogue, memo)
    lister, reader = Listers(mirror.lister, places), Readers(mirror.reader, places)
    copies = Copies(mirror.clones, places)

    replicas = company.replicas if company else SoleReplica()
    cache = GitCache(
        Source(lister, copies, reader, replicas, replicas.me.name),
        Renders(
            reader,
            content,
            memo,
            workers,
            catalogue,
            clock,
            decryptor=decryptor or _decryptor(settings),
        ),
        content,
        clock,
        Pace(poll.seconds, poll.seconds_with_webhook),
        replicas,
        signer=Signer.from_bytes(key),
        peers=company.peers if company else None,
        housework=(eviction.run,),
        meters=(mirror.meters,),
        on_start=(mirror.open, open_disk, workers.start),
        on_stop=(workers.stop, content.stop, fetcher.close, admission.close, mirror.close),
    )
    mirror.submodules.look_among(cache.specs)
    charts.accounts.look_among(cache.specs)
    return cache


def write_side(settings: GitCacheSettings, clock: Clock, egress: Egress | None) -> WriteSide:
    """Composes the write side: commits and merge requests."""
    return WriteSide(settings.data_dir / "written", _mirror_options(settings), clock, egress)


def signer(settings: GitCacheSettings) -> Signer:
    """Reads the key that signs renders. Raises Invalid for a malformed key file."""
    return Signer.from_bytes(_signing_key(settings))


def _decryptor(settings: GitCacheSettings) -> Decryptor | None:
    folder = settings.render.age_keys
    return SopsDecryptor(folder) if folder is not None else None


def _signing_key(settings: GitCacheSettings) -> bytes:
    """Reads or generates the signing key; replicas derive it from their shared key."""
    if settings.peers.key is not None:
        return derived(settings.peers.key.get_secret_value(), "attestations")
    path = settings.data_dir / "signing.key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, secrets.token_bytes(32))
    return path.read_bytes()


def _eviction(settings: GitCacheSettings, live: LiveDigests, clock: Clock) -> Eviction:
    return Eviction(
        settings.data_dir / "bundles",
        settings.data_dir / "memos",
        live,
        clock,
        keep=timedelta(days=settings.store.keep_days),
        watermark=settings.store.watermark,
    )


def _tiers(
    settings: GitCacheSettings,
    company: Company | None,
    make_room: Callable[[], Awaitable[None]],
) -> TieredContent:
    nearest = company.nearest if company else files(settings)
    farther = [company.others] if company else []
    if settings.store.objects is not None:
        farther.append(open_objects(settings.store.objects))
    return TieredContent(nearest, farther, make_room)


def _fetcher(settings: GitCacheSettings, admission: Admission) -> Fetcher:
    options = _mirror_options(settings)
    return Fetcher(
        admission,
        admission.check_host,
        seconds=options.fetch_seconds,
        proxy=checked_proxy(options.proxy) if options.proxy else None,
        tls=client_context(None, options.authority),
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


def git_memory(settings: FetchSettings, container: int | None) -> int:
    """Memory limit of a git process, in bytes; `container` is the limit of the container."""
    half = _GIT_MEMORY if container is None else container // 2
    return settings.memory or min(half, _GIT_MEMORY)


def _limits(settings: RenderSettings) -> Limits:
    return Limits(
        seconds=settings.seconds,
        memory=settings.memory,
        tool_memory=settings.tool_memory,
        file_bytes=settings.input_bytes,
        jobs_per_worker=settings.jobs_per_worker,
    )
