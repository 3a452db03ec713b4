"""Renders on an agent for the control plane, with a dedicated git cache."""

from collections import Counter
from dataclasses import replace

import structlog

from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.render_orders import RenderOrder
from core.spec.source import RenderedBundle, RepositorySpec
from gitcache import compose
from gitcache.settings import GitCacheSettings, PollSettings, RenderSettings, StoreSettings
from gitcache.sync.cache import GitCache
from syncagent.settings import Settings
from towline.agent_repositories import CredentialFiles

log = structlog.get_logger(__name__)

_POLL_S = 3600
_IDLE_S = 300.0


def build(settings: Settings, clock: Clock) -> "AgentRenders":
    """Builds renders for `syncagent.compose.build`, with one render worker and little memory."""
    cache_settings = GitCacheSettings(
        data_dir=settings.state.directory / "renders",
        poll=PollSettings(seconds=_POLL_S),
        render=RenderSettings(workers=1),
        store=StoreSettings(memory=4 << 20, keep_days=1),
    )
    cache, signer = (
        compose.build_git_cache(cache_settings, clock),
        compose.load_signer(cache_settings, clock),
    )
    log.info("renders are signed", key=signer.identity.key_id, public_key=signer.identity.pem)
    return AgentRenders(cache, CredentialFiles(settings.git.credentials), clock)


class AgentRenders:
    """Implements `syncagent.ports.OrderedRenders`.

    The cache follows a repository for 5 minutes after the last order for it. Lent credentials stay
    in memory for that time, and are never written to disk.
    """

    def __init__(self, cache: GitCache, credentials: CredentialFiles, clock: Clock) -> None:
        self._cache = cache
        self._credentials = credentials
        self._clock = clock
        self._users: Counter[RepositoryId] = Counter()
        self._tasks = Tasks("renders")

    async def start(self) -> None:
        await self._cache.start()

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._cache.stop()

    async def execute(self, order: RenderOrder) -> tuple[RenderedBundle, bytes]:
        """Implements the port."""
        specs = [self._with_credentials(repository) for repository in order.repositories]
        self._users.update(spec.id for spec in specs)
        try:
            for spec in specs:
                self._cache.follow(spec)
            rendered = await self._cache.render(order.request)
            return rendered, await self._cache.bundle(rendered.digest)
        finally:
            self._tasks.spawn("release", self._release([spec.id for spec in specs]))

    def _with_credentials(self, spec: RepositorySpec) -> RepositorySpec:
        """Adds the agent's own credentials if the order has none."""
        return replace(spec, credentials=spec.credentials or self._credentials.for_url(spec.url))

    async def _release(self, ids: list[RepositoryId]) -> None:
        await self._clock.sleep(_IDLE_S)
        self._users.subtract(ids)
        for id in ids:
            if self._users[id] <= 0:
                del self._users[id]
                self._cache.forget(id)
