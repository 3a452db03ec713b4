"""Puts the git cache together; the only module that knows settings and concrete classes."""

import asyncio

from fleet.runtime.clock import Clock
from gitcache.coordination.local import SoleReplica
from gitcache.mirror.access import Access
from gitcache.mirror.admission import Admission
from gitcache.mirror.clones import GitClones
from gitcache.mirror.lsrefs import HttpRefLister
from gitcache.mirror.lsremote import AdaptiveRefLister, GitRefLister
from gitcache.mirror.runner import GitRunner
from gitcache.mirror.trees import GitTrees
from gitcache.render.pool import Limits, WorkerPool
from gitcache.settings import GitCacheSettings, RenderSettings
from gitcache.store.files import FileContent, FileMemo, sweep
from gitcache.sync.cache import GitCache
from gitcache.sync.follower import Pace, Source
from gitcache.sync.renders import Renders

_ASK_CHEAPLY_AGAIN = 3600.0


def build(settings: GitCacheSettings, clock: Clock) -> GitCache:
    """The embedded git cache: one replica, files below the data directory."""
    data, poll, fetch = settings.data_dir, settings.poll, settings.fetch
    home = data / "repositories"
    runner = GitRunner(home)
    access = Access(home, known_hosts=fetch.known_hosts)
    admission = Admission(allow_private_hosts=fetch.allow_private_hosts)
    http = HttpRefLister(admission, seconds=poll.request_seconds, per_host=poll.requests_per_host)
    process = GitRefLister(runner, access, admission, seconds=poll.request_seconds)
    lister = AdaptiveRefLister(http, process, clock, retry_seconds=_ASK_CHEAPLY_AGAIN)
    clones = GitClones(home, runner, access, admission, seconds=fetch.seconds)
    reader = GitTrees(
        clones.path, files=settings.render.files, total_bytes=settings.render.input_bytes
    )
    content = FileContent(data / "bundles", memory=settings.store.memory)
    memo = FileMemo(data / "memos")
    workers = WorkerPool(settings.render.workers, _limits(settings.render), data / "scratch")

    async def open_disk() -> None:
        await asyncio.to_thread(clones.open)
        for root in (data / "bundles", data / "memos"):
            await asyncio.to_thread(sweep, root)

    async def close_runner() -> None:
        await asyncio.to_thread(runner.close)

    replicas = SoleReplica()
    return GitCache(
        Source(lister, clones, reader, replicas),
        Renders(reader, content, memo, workers, clock),
        content,
        clock,
        Pace(poll.seconds, poll.seconds_with_webhook),
        replicas,
        on_start=(open_disk, runner.check_version, workers.start),
        on_stop=(workers.stop, reader.close, http.close, admission.close, close_runner),
    )


def _limits(settings: RenderSettings) -> Limits:
    return Limits(
        seconds=settings.seconds,
        memory=settings.memory,
        tool_memory=settings.tool_memory,
        file_bytes=settings.input_bytes,
        jobs_per_worker=settings.jobs_per_worker,
    )
