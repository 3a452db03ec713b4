"""The git cache as its users see it."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping

import structlog

from fleet.errors import Invalid, NotFound, TowlineError, Unavailable
from fleet.identity import RepositoryId
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from fleet.source import Rendered, RenderRequest, RepositorySpec, RepositoryState
from gitcache.domain import paths
from gitcache.ports import ContentStore
from gitcache.sync.follower import Follower, Pace, Source
from gitcache.sync.renders import Renders

log = structlog.get_logger(__name__)

_HOUSEKEEPING_SECONDS = 600.0
_MAX_RECIPES = 20_000

Step = Callable[[], Awaitable[None]]


class GitCache:
    """Follows repositories and renders their folders.

    `on_start` and `on_stop` open and close what the ports hold, in order.
    """

    def __init__(
        self,
        source: Source,
        renders: Renders,
        content: ContentStore,
        clock: Clock,
        pace: Pace,
        *,
        on_start: Collection[Step] = (),
        on_stop: Collection[Step] = (),
    ) -> None:
        self._source = source
        self._renders = renders
        self._content = content
        self._clock = clock
        self._pace = pace
        self._on_start = on_start
        self._on_stop = on_stop
        self._followers: dict[RepositoryId, Follower] = {}
        self._callbacks: list[Callable[[RepositoryState], None]] = []
        self._recipes: OrderedDict[str, RenderRequest] = OrderedDict()
        self.tasks = Tasks("gitcache")
        self._running = False

    async def start(self) -> None:
        """Open the ports and begin to poll."""
        for step in self._on_start:
            await step()
        self._running = True
        for follower in self._followers.values():
            follower.start()
        self.tasks.forever("housekeeping", self._keep_house())

    async def stop(self) -> None:
        """End polling, then rendering, then close the ports."""
        self._running = False
        for follower in self._followers.values():
            await follower.stop()
        await self.tasks.stop()
        for step in self._on_stop:
            await step()

    def follow(self, spec: RepositorySpec) -> None:
        """Follow a repository, or go on with other refs or credentials; idempotent.

        What is wrong with the URL or a ref shows in the repository's state.
        """
        follower = self._followers.get(spec.id)
        if follower is not None and follower.spec.url == spec.url:
            follower.replace(spec)
            return
        new = Follower(spec, self._source, self._clock, self._pace, self._tell)
        self._followers[spec.id] = new
        if self._running:
            self.tasks.spawn(f"follow/{spec.id}", self._succeed(follower, new))

    def forget(self, repository_id: RepositoryId) -> None:
        """Stop following; the local copy is deleted later."""
        follower = self._followers.pop(repository_id, None)
        if follower is not None and self._running:
            self.tasks.spawn(f"forget/{repository_id}", self._end(follower))

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None:
        """Call back in the loop with each state whose commits, missing refs or health changed."""
        self._callbacks.append(callback)

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        """What is known now; None before the first poll, or if it is not followed."""
        follower = self._followers.get(repository_id)
        return follower.state if follower else None

    async def hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        """Poll at once. `announced` (full ref to sha) is asked for again until it shows."""
        follower = self._followers.get(repository_id)
        if follower is not None:
            follower.hint(announced)

    async def trees(
        self, repository_id: RepositoryId, commit: str, folders: Collection[str]
    ) -> Mapping[str, str | None]:
        """Git's id of each folder or file in a commit, None where there is none. Unavailable."""
        follower = self._follower(repository_id)
        record = await follower.have(commit)
        normal = {folder: _normal(folder) for folder in folders}
        wanted = {path for path in normal.values() if path is not None}
        found = await self._source.reader.ids(follower.spec, record.tree, wanted)
        return {
            folder: entry.id if path is not None and (entry := found[path]) else None
            for folder, path in normal.items()
        }

    async def render(self, request: RenderRequest) -> Rendered:
        """The bundle of a folder at a commit.

        Invalid: the folder's content is at fault; the message names file and line or object.
        Unavailable: the commit or the disk is out of reach; try again.
        """
        follower = self._follower(request.repository_id)
        record = await follower.have(request.commit)
        rendered = await self._renders.render(follower.spec, record.tree, request)
        self._recipes[rendered.digest] = request
        if len(self._recipes) > _MAX_RECIPES:
            self._recipes.popitem(last=False)
        return rendered

    async def bundle(self, digest: str) -> bytes:
        """The bytes of a bundle. NotFound: it was never rendered here, or can no more be."""
        data = await self._content.get(digest)
        if data is None and digest in self._recipes:
            await self.render(self._recipes[digest])
            data = await self._content.get(digest)
        if data is None:
            raise NotFound(f"no bundle {digest[:80]!r} here")
        return data

    def _follower(self, repository_id: RepositoryId) -> Follower:
        follower = self._followers.get(repository_id)
        if follower is None:
            raise Unavailable(f"repository {repository_id} is not followed", retry_after=1.0)
        return follower

    def _tell(self, state: RepositoryState) -> None:
        for callback in self._callbacks:
            try:
                callback(state)
            except Exception:
                log.exception("state callback failed", repository=state.repository_id)

    async def _succeed(self, old: Follower | None, new: Follower) -> None:
        """Begin with the new follower once the old one has let go of the repository."""
        if old is not None:
            await self._end(old)
        if self._followers.get(new.spec.id) is new:
            new.start()

    async def _end(self, follower: Follower) -> None:
        await follower.stop()
        await self._source.reader.release(follower.spec)

    async def _keep_house(self) -> None:
        while True:
            await self._clock.sleep(_HOUSEKEEPING_SECONDS)
            try:
                await self._clean()
            except TowlineError as error:
                log.warning("housekeeping failed", reason=error.message)
            except Exception:
                log.exception("housekeeping failed")

    async def _clean(self) -> None:
        specs = [follower.spec for follower in self._followers.values()]
        await self._source.clones.keep_only(specs)
        for spec in specs:
            await self._source.clones.maintain(spec)


def _normal(folder: str) -> str | None:
    try:
        return paths.folder_path(folder)
    except Invalid:
        return None
