"""The git cache as its users see it."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import structlog
from prometheus_client.registry import Collector

from fleet.attestation import Signer, Statement
from fleet.bundle import digest_of, open_bundle
from fleet.errors import Invalid, NotFound, TowlineError, Unavailable
from fleet.identity import RepositoryId
from fleet.remotes import parse_remote
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from fleet.source import (
    Commit,
    Rendered,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
    SourceFolder,
)
from gitcache.domain import paths
from gitcache.domain.objects import CommitRecord
from gitcache.ports import ContentStore, Member, NotOwner, PeerAway, Peers, Replicas
from gitcache.sync.follower import Pace, Source
from gitcache.sync.following import Following
from gitcache.sync.kinds import is_git
from gitcache.sync.plans import Origin
from gitcache.sync.renders import Renders

log = structlog.get_logger(__name__)

_HOUSEKEEPING_SECONDS = 600.0
_MAX_RECIPES = 20_000
_LOOK_SECONDS = 1.0
_OWNER_PATIENCE = (0.05, 0.2, 0.5, 1.0, 2.0, 0.0)
"""Seconds between looks for an owner: as long as a dead one's lease may go on, and a little."""

Step = Callable[[], Awaitable[None]]
Result = TypeVar("Result")
Here = Callable[[RepositorySpec, CommitRecord], Awaitable[Result]]
There = Callable[[Member], Awaitable[Result]]


class GitCache:
    """Follows repositories and renders their folders, as one of several replicas or alone.

    Of a repository that another replica owns, renders and tree ids are asked from that replica,
    so that each is made once; bundles are content, which `content` finds wherever it lies.
    `on_start` and `on_stop` open and close what the ports hold, in order. `housework` is done
    now and then; `meters` are what a registry of Prometheus may collect from.
    """

    def __init__(
        self,
        source: Source,
        renders: Renders,
        content: ContentStore,
        clock: Clock,
        pace: Pace,
        replicas: Replicas,
        *,
        peers: Peers | None = None,
        signer: Signer | None = None,
        housework: Collection[Step] = (),
        meters: Collection[Collector] = (),
        on_start: Collection[Step] = (),
        on_stop: Collection[Step] = (),
    ) -> None:
        self._source = source
        self._renders = renders
        self._content = content
        self._clock = clock
        self._replicas = replicas
        self._peers = peers
        self._signer = signer
        self._housework = housework
        self.meters = meters
        self._on_start = on_start
        self._on_stop = on_stop
        self._following = Following(source, replicas, clock, pace)
        self._recipes: OrderedDict[str, RenderRequest] = OrderedDict()
        self.tasks = Tasks("gitcache")

    async def start(self) -> None:
        """Open the ports and begin to poll."""
        for step in self._on_start:
            await step()
        await self._following.start()
        self.tasks.forever("housekeeping", self._keep_house())

    async def leave(self) -> None:
        """End polling, so that another replica takes over; what was asked is answered still."""
        await self._following.stop()

    async def stop(self) -> None:
        """End polling, then rendering, then close the ports."""
        await self.leave()
        await self.tasks.stop()
        for step in self._on_stop:
            await step()

    def parts(self) -> tuple[Tasks, ...]:
        """Owners of work that must not end before `stop`."""
        return (self.tasks, *self._following.parts())

    def specs(self) -> Collection[RepositorySpec]:
        """All repositories that are followed, by this or another replica."""
        return self._following.specs.values()

    def follow(self, spec: RepositorySpec) -> None:
        """Follow a repository, or go on with other refs or credentials; idempotent.

        What is wrong with the URL or a ref shows in the repository's state.
        """
        self._following.follow(spec)

    def forget(self, repository_id: RepositoryId) -> None:
        """Stop following; the local copy is deleted later."""
        self._following.forget(repository_id)

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None:
        """Call back in the loop with each state whose commits, missing refs or health changed."""
        self._following.on_state(callback)

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        """What is known now; None before the first poll, or if it is not followed."""
        return self._following.state(repository_id)

    def states(self) -> Collection[RepositoryState]:
        """All states that are known now."""
        return self._following.states()

    def company(self) -> tuple[Member, Sequence[Member]]:
        """This replica, and all that may own repositories now."""
        return self._replicas.me, self._replicas.members()

    def owner(self, repository_id: RepositoryId) -> str | None:
        """The name of the replica that follows a repository; None while there is none."""
        member = self._replicas.owner(repository_id)
        return member.name if member else None

    async def hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        """Poll at once. `announced` (full ref to sha) is asked for again until it shows."""
        await self._following.hint(repository_id, announced)

    async def trees(
        self,
        repository_id: RepositoryId,
        commit: str,
        folders: Collection[str],
        *,
        only_here: bool = False,
    ) -> Mapping[str, str | None]:
        """Git's id of each folder or file in a commit, None where there is none. Unavailable.

        `only_here`: another replica asks; NotOwner if this one does not own the repository.
        """

        async def here(spec: RepositorySpec, record: CommitRecord) -> Mapping[str, str | None]:
            normal, wanted = _normal_paths(frozenset(folders))
            found = await self._source.reader.ids(spec, record.tree, wanted)
            return {
                folder: entry.id if path is not None and (entry := found[path]) else None
                for folder, path in normal
            }

        async def there(member: Member) -> Mapping[str, str | None]:
            return await self._others.trees(member, repository_id, commit, folders)

        return await self._answer(repository_id, commit, here, None if only_here else there)

    async def folders(
        self,
        repository_id: RepositoryId,
        commit: str,
        base: str,
        depth: int,
        *,
        only_here: bool = False,
    ) -> list[str]:
        """Paths of the folders at most so many levels below a base; `only_here` as in `trees`.

        Invalid: there is no such base, or too much below it. Unavailable.
        """

        async def here(spec: RepositorySpec, record: CommitRecord) -> list[str]:
            path = paths.folder_path(base)
            entry = (await self._source.reader.ids(spec, record.tree, [path]))[path]
            if entry is None or not entry.is_tree:
                raise Invalid(f"there is no folder {path!r} in commit {commit[:12]}")
            below = await self._source.reader.folders(spec, entry.id, depth)
            return [paths.child(path, name) for name in below]

        async def there(member: Member) -> list[str]:
            return await self._others.folders(member, repository_id, commit, base, depth)

        return await self._answer(repository_id, commit, here, None if only_here else there)

    async def resolve(
        self, repository_id: RepositoryId, name: str, *, only_here: bool = False
    ) -> Commit:
        """The commit that a branch, tag or sha means now; `only_here` as in `trees`.

        NotFound: there is none. Unavailable: the server or the owner is out of reach.
        """
        follower = self._following.follower(repository_id)
        if follower is not None:
            return await follower.resolve(name)
        owner = None if only_here else self._replicas.owner(repository_id)
        if owner is None or owner == self._replicas.me:
            raise NotOwner(f"no replica follows repository {repository_id} now", retry_after=1.0)
        return await self._others.resolve(owner, repository_id, name)

    async def render(self, request: RenderRequest, *, only_here: bool = False) -> Rendered:
        """The bundle of a folder at a commit; `only_here` as in `trees`.

        Invalid: the folder's content is at fault; the message names file and line or object.
        Unavailable: the commit or the disk is out of reach; try again.
        """

        async def here(spec: RepositorySpec, record: CommitRecord) -> Rendered:
            sources = [(await self._origin(source), source) for source in request.sources]
            rendered = await self._renders.render(spec, record.tree, request, sources)
            if (follower := self._following.follower(spec.id)) is not None:
                follower.note_used(rendered.reads)
            return self._attested(rendered, spec, request)

        async def there(member: Member) -> Rendered:
            return await self._others.render(member, request)

        rendered = await self._answer(
            request.repository_id, request.commit, here, None if only_here else there
        )
        self._recipes[rendered.digest] = request
        if len(self._recipes) > _MAX_RECIPES:
            self._recipes.popitem(last=False)
        return rendered

    async def keep(self, data: bytes) -> Rendered:
        """Keep a bundle that comes from no repository, with the word of the render tier on it.

        Unavailable: the disk is full or broken.
        """
        digest = digest_of(data)
        await self._content.put(digest, data)
        bundle = open_bundle(digest, data)
        rendered = Rendered(digest, digest, len(data), bundle.count, cached=False)
        if self._signer is None:
            return rendered
        statement = Statement(digest, repository="", commit="", folder="", renderer="raw")
        return replace(rendered, attestation=self._signer.sign(statement))

    async def bundle(self, digest: str) -> bytes:
        """The bytes of a bundle. NotFound: it was never rendered here, or can no more be.

        Unavailable: a replica or store that may have it does not answer.
        """
        recipe = self._recipes.get(digest)
        try:
            data = await self._content.get(digest)
        except Unavailable:
            if recipe is None:
                raise
            data = None
        if data is None and recipe is not None:
            await self.render(recipe)
            data = await self._content.get(digest)
        if data is None:
            raise NotFound(f"no bundle {digest[:80]!r} here")
        return data

    async def drop_copies(self) -> None:
        """Delete the local copies of repositories that others own or nobody follows."""
        await self._following.drop_copies()

    async def _origin(self, source: SourceFolder) -> Origin:
        """Where another source of a render lies; another replica's is fetched here as well."""
        found = await self._find_owned(source.repository_id, source.commit)
        if found is None:
            await self._following.borrow(source.repository_id, source.commit)
            found = await self._find_owned(source.repository_id, source.commit)
        if found is None:
            raise Unavailable(f"repository {source.repository_id} is not followed")
        return Origin(found[0], found[1].tree)

    def _attested(
        self, rendered: Rendered, spec: RepositorySpec, request: RenderRequest
    ) -> Rendered:
        if self._signer is None:
            return rendered
        statement = Statement(
            digest=rendered.digest,
            repository=parse_remote(spec.url).text if is_git(spec) else spec.url,
            commit=request.commit,
            folder=request.folder,
            renderer=request.renderer.value,
        )
        return replace(rendered, attestation=self._signer.sign(statement))

    @property
    def _others(self) -> Peers:
        if self._peers is None:
            raise Unavailable("there are no other replicas")
        return self._peers

    async def _answer(
        self,
        repository_id: RepositoryId,
        commit: str,
        here: Here[Result],
        there: There[Result] | None,
    ) -> Result:
        """Answer from the copy here, or have the owner answer, whoever that will be by then."""
        if repository_id not in self._following.specs:
            raise NotOwner(f"repository {repository_id} is not followed", retry_after=1.0)
        for pause in _OWNER_PATIENCE:
            if (found := await self._find_owned(repository_id, commit)) is not None:
                return await here(*found)
            if there is None:
                raise NotOwner(f"repository {repository_id} is not followed by this replica")
            owner = self._replicas.owner(repository_id)
            if owner is not None and owner != self._replicas.me:
                try:
                    return await self._asked(owner, repository_id, there)
                except PeerAway as error:
                    log.info("owner away", repository=repository_id, reason=error.message)
            await self._clock.sleep(pause)
        # Others may know more by now of who owns it.
        raise NotOwner(f"no replica answers for repository {repository_id} now", retry_after=1.0)

    async def _asked(
        self, owner: Member, repository_id: RepositoryId, there: There[Result]
    ) -> Result:
        """The owner's answer, waited for as long as it is the owner. PeerAway: it is no more."""
        asking = asyncio.ensure_future(there(owner))
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=_LOOK_SECONDS)
                if not asking.done() and self._replicas.owner(repository_id) != owner:
                    raise PeerAway(f"{owner.name} has lost the repository")
            return asking.result()
        finally:
            asking.cancel()

    async def _find_owned(
        self, repository_id: RepositoryId, commit: str
    ) -> tuple[RepositorySpec, CommitRecord] | None:
        """Implements `_find`; None also where this replica has just lost the repository to another one."""
        try:
            return await self._find(repository_id, commit)
        except NotOwner as error:
            log.info("no longer owner", repository=repository_id, reason=error.message)
            return None

    async def _find(
        self, repository_id: RepositoryId, commit: str
    ) -> tuple[RepositorySpec, CommitRecord] | None:
        """A commit in this replica's copy; fetched if this is the owner."""
        follower = self._following.follower(repository_id)
        if follower is not None:
            return follower.spec, await follower.have(commit)
        copy = self._following.copy_of(repository_id)
        record = await self._source.reader.commit(copy, commit) if copy else None
        return None if copy is None or record is None else (copy, record)

    async def _keep_house(self) -> None:
        while True:
            await self._clock.sleep(_HOUSEKEEPING_SECONDS)
            for step in (self._following.clean, *self._housework):
                try:
                    await step()
                except TowlineError as error:
                    log.warning("housekeeping failed", reason=error.message)
                except Exception:
                    log.exception("housekeeping failed")


Normal = Sequence[tuple[str, str | None]]


@lru_cache(8)
def _normal_paths(folders: frozenset[str]) -> tuple[Normal, frozenset[str]]:
    """Each folder with its normal form, and all of these; the same are asked for again and again.

    None: it is no path inside a commit.
    """
    normal = tuple((folder, _normal(folder)) for folder in folders)
    return normal, frozenset(path for _, path in normal if path is not None)


def _normal(folder: str) -> str | None:
    try:
        return paths.folder_path(folder)
    except Invalid:
        return None
