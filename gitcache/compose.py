"""Puts the git cache together; the only module that knows settings and concrete classes."""

import asyncio

from fleet.runtime.clock import Clock
from gitcache.coordination.local import SoleReplica
from gitcache.mirror.mirror import Mirror, MirrorOptions
from gitcache.ports import Egress
from gitcache.render.pool import Limits, WorkerPool
from gitcache.settings import GitCacheSettings, RenderSettings
from gitcache.store.files import FileContent, FileMemo, sweep
from gitcache.sync.cache import GitCache
from gitcache.sync.follower import Pace, Source
from gitcache.sync.renders import Renders

def build(
    settings: GitCacheSettings, clock: Clock, *, egress: Egress | None = None
) -> GitCache:
    """The embedded git cache: one replica, files below the data directory."""
    data, poll = settings.data_dir, settings.poll
    mirror = Mirror(data / "repositories", _mirror_options(settings), clock, egress=egress)
    content = FileContent(data / "bundles", memory=settings.store.memory)
    memo = FileMemo(data / "memos")
    workers = WorkerPool(settings.render.workers, _limits(settings.render), data / "scratch")

    async def open_disk() -> None:
        for root in (data / "bundles", data / "memos"):
            await asyncio.to_thread(sweep, root)

    replicas = SoleReplica()
    return GitCache(
        Source(mirror.lister, mirror.clones, mirror.reader, replicas),
        Renders(mirror.reader, content, memo, workers, clock),
        content,
        clock,
        Pace(poll.seconds, poll.seconds_with_webhook),
        replicas,
        on_start=(mirror.open, open_disk, workers.start),
        on_stop=(workers.stop, mirror.close),
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
        watermark=settings.store.watermark,
        files=settings.render.files,
        total_bytes=settings.render.input_bytes,
    )


def _limits(settings: RenderSettings) -> Limits:
    return Limits(
        seconds=settings.seconds,
        memory=settings.memory,
        tool_memory=settings.tool_memory,
        file_bytes=settings.input_bytes,
        jobs_per_worker=settings.jobs_per_worker,
    )
