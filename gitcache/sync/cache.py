"""The public API of the git cache."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import structlog
from prometheus_client.registry import Collector

from core.errors import Invalid, NotFound, TowlineError, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.runtime.lru_cache import LRUCache
from core.runtime.tasks import Tasks
from core.spec.bundle import Attestation, digest_of, open_bundle
from core.spec.source import (
    Commit,
    RenderedBundle,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
)
from core.spec.source_signatures import Evidence
from core.spec.statements.attestation import AttestationStatement
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity
from gitcache.domain import messages, paths
from gitcache.domain.commits import CommitRecord
from gitcache.domain.messages import Operation, Query, Result
from gitcache.ports import (
    ContentStore,
    NotOwner,
    PeerOperations,
    PeerUnavailable,
    ReplicaMember,
    Replicas,
)
from gitcache.render.plan import CommitRoot
from gitcache.render.signing import RenderSigner
from gitcache.sync.base_commits import BaseCommits
from gitcache.sync.files import read_folder
from gitcache.sync.followed_repositories import FollowedRepositories
from gitcache.sync.follower import FollowerPorts, PollIntervals
from gitcache.sync.render_service import RenderService

log = structlog.get_logger(__name__)

_HOUSEKEEPING_SECONDS = 600.0
_MAX_CACHED_REQUESTS = 20_000
_OWNER_CHECK_SECONDS = 1.0
_OWNER_LOOKUP_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0, 0.0)
"""Seconds between lookups of an owner; together a little more than the lease of a dead owner."""

Step = Callable[[], Awaitable[None]]
LocalAnswer = Callable[[RepositorySpec, CommitRecord], Awaitable[Result]]
RemoteAnswer = Callable[[PeerOperations, ReplicaMember], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class FollowedSources:
    """Ports and poll intervals of followed repositories; `specs` is filled with them."""

    ports: FollowerPorts
    pace: PollIntervals
    specs: dict[RepositoryId, RepositorySpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplicaNetwork:
    """Ownership of repositories among the replicas, and operations of the other replicas."""

    replicas: Replicas
    peers: PeerOperations | None = None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Steps around the work of a git cache.

    `on_start` and `on_stop` open and close the ports, in order. `housekeeping_steps` run
    periodically; `meters` are Prometheus collectors.
    """

    on_start: Collection[Step] = ()
    on_stop: Collection[Step] = ()
    housekeeping_steps: Collection[Step] = ()
    meters: Collection[Collector] = ()


_NO_UPKEEP = Upkeep()
_NO_EVIDENCE = Evidence()


class GitCache:
    """Follows repositories and renders their folders, alone or as one of several replicas.

    Forwards requests for renders and tree ids to the owner of the repository, so that each is
    computed once. `content` finds bundles in any store.
    """

    def __init__(
        self,
        sources: FollowedSources,
        renders: RenderService,
        content: ContentStore,
        clock: Clock,
        network: ReplicaNetwork,
        signer: RenderSigner,
        *,
        upkeep: Upkeep = _NO_UPKEEP,
    ) -> None:
        self._reader = sources.ports.reader
        self._renders = renders
        self._content = content
        self._clock = clock
        self._replicas = network.replicas
        self._peers = network.peers
        self._signer = signer
        self._upkeep = upkeep
        self._specs = sources.specs
        self.meters = upkeep.meters
        self._following = FollowedRepositories(
            sources.ports, network.replicas, clock, sources.pace, self._specs
        )
        self._bases = BaseCommits(self._specs, self.resolve, self._commit_root, clock)
        self._requests_by_digest: LRUCache[str, RenderRequest] = LRUCache(_MAX_CACHED_REQUESTS)
        self.tasks = Tasks("gitcache")

    async def start(self) -> None:
        """Opens the ports and starts to poll."""
        for step in self._upkeep.on_start:
            await step()
        await self._following.start()
        self.tasks.forever("housekeeping", self._run_housekeeping())

    async def leave(self) -> None:
        """Stops polling, so that another replica takes over; still answers running requests."""
        await self._following.stop()

    async def stop(self) -> None:
        """Stops polling, then rendering, then closes the ports."""
        await self.leave()
        await self.tasks.stop()
        for step in self._upkeep.on_stop:
            await step()

    def parts(self) -> tuple[Tasks, ...]:
        """Task owners whose tasks must not end before `stop`."""
        return (self.tasks, *self._following.parts())

    def specs(self) -> Collection[RepositorySpec]:
        """All followed repositories, of this and other replicas."""
        return self._specs.values()

    def follow(self, spec: RepositorySpec) -> None:
        """Follows a repository or updates its spec; idempotent.

        The repository's state reports errors of its URL or refs.
        """
        self._following.follow(spec)

    def forget(self, repository_id: RepositoryId) -> None:
        """Stops following; the local copy is deleted later."""
        self._following.forget(repository_id)

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None:
        """Registers a callback for each state with changed commits, missing refs or health."""
        self._following.on_state(callback)

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        """Returns the current state; None before the first poll or if not followed."""
        return self._following.state(repository_id)

    def states(self) -> Collection[RepositoryState]:
        """All current states."""
        return self._following.states()

    def replica_members(self) -> tuple[ReplicaMember, Sequence[ReplicaMember]]:
        """Returns this replica, and all replicas that may own repositories."""
        return self._replicas.me, self._replicas.members()

    def owner(self, repository_id: RepositoryId) -> str | None:
        """Returns the name of the replica that follows a repository, or None."""
        member = self._replicas.owner(repository_id)
        return member.name if member else None

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        """Polls at once; repeats the poll until `announced` (full ref to sha) is visible."""
        await self._following.request_poll(repository_id, announced)

    async def trees(
        self,
        repository_id: RepositoryId,
        commit: str,
        folders: Collection[str],
        *,
        local_only: bool = False,
    ) -> dict[str, str | None]:
        """Returns git's id of each folder or file in a commit, None if missing. Unavailable.

        `local_only` marks requests of other replicas: raises NotOwner instead of forwarding.
        """

        async def answer_locally(
            spec: RepositorySpec, record: CommitRecord
        ) -> dict[str, str | None]:
            normalized, wanted_paths = _normal_paths(frozenset(folders))
            entries = await self._reader.ids(spec, record.tree, wanted_paths)
            return {
                folder: entry.id if path is not None and (entry := entries[path]) else None
                for folder, path in normalized
            }

        query = messages.TreeIdsRequest(repository_id, commit, tuple(folders))
        forward = None if local_only else _forwarding(messages.TREES, query)
        return await self._answer_or_forward(repository_id, commit, answer_locally, forward)

    async def folders(
        self,
        repository_id: RepositoryId,
        commit: str,
        base: str,
        depth: int,
        *,
        local_only: bool = False,
    ) -> list[str]:
        """Lists the folders up to `depth` levels below a base; `local_only` as in `trees`.

        Raises Invalid for an unknown base or too many folders, Unavailable.
        """

        async def answer_locally(spec: RepositorySpec, record: CommitRecord) -> list[str]:
            path = paths.folder_path(base)
            entry = (await self._reader.ids(spec, record.tree, [path]))[path]
            if entry is None or not entry.is_tree:
                raise Invalid(f"there is no folder {path!r} in commit {commit[:12]}")
            folders = await self._reader.folders(spec, entry.id, depth)
            return [paths.child(path, name) for name in folders]

        query = messages.SubfoldersRequest(repository_id, commit, base, depth)
        forward = None if local_only else _forwarding(messages.FOLDERS, query)
        return await self._answer_or_forward(repository_id, commit, answer_locally, forward)

    async def files(
        self,
        repository_id: RepositoryId,
        commit: str,
        folder: str,
        endings: Collection[str],
        *,
        local_only: bool = False,
    ) -> dict[str, bytes]:
        """Reads the files below a folder whose names have one of these endings, by their paths.

        Leaves out hidden folders and symbolic links; `local_only` as in `trees`. Raises Invalid
        for an unknown folder, or for too many files or bytes. Unavailable.
        """

        async def answer_locally(spec: RepositorySpec, record: CommitRecord) -> dict[str, bytes]:
            return await read_folder(
                self._reader, spec, record, paths.folder_path(folder), tuple(endings)
            )

        query = messages.FilesRequest(repository_id, commit, folder, tuple(endings))
        forward = None if local_only else _forwarding(messages.FILES, query)
        return await self._answer_or_forward(repository_id, commit, answer_locally, forward)

    async def resolve(
        self, repository_id: RepositoryId, name: str, *, local_only: bool = False
    ) -> Commit:
        """Resolves a branch, tag or sha to its current commit; `local_only` as in `trees`.

        Raises NotFound if there is none, Unavailable if server or owner cannot be reached.
        """
        follower = self._following.follower(repository_id)
        if follower is not None:
            return await follower.resolve(name)
        owner = None if local_only else self._replicas.owner(repository_id)
        if owner is None or owner == self._replicas.me or self._peers is None:
            raise NotOwner(
                f"no replica currently follows repository {repository_id}", retry_after=1.0
            )
        query = messages.ResolveRequest(repository_id, name)
        return await self._peers.call(owner, messages.RESOLVE, query)

    async def render(self, request: RenderRequest, *, local_only: bool = False) -> RenderedBundle:
        """Renders a folder at a commit to a bundle; `local_only` as in `trees`.

        Raises Invalid for bad content, naming file and line or object. Raises Unavailable if the
        commit or the disk is unavailable; retry later.
        """

        async def answer_locally(spec: RepositorySpec, record: CommitRecord) -> RenderedBundle:
            sources = [
                (await self._commit_root(source.repository_id, source.commit), source)
                for source in request.sources
            ]
            rendered, statement, evidence = await self._renders.render(
                spec, record.tree, request, sources, self._bases
            )
            if (follower := self._following.follower(spec.id)) is not None:
                follower.prefetch_paths(rendered.reads)
            return self._attest(rendered, statement, evidence)

        def forward(peers: PeerOperations, owner: ReplicaMember) -> Awaitable[RenderedBundle]:
            return peers.render(owner, request)

        rendered = await self._answer_or_forward(
            request.repository_id, request.commit, answer_locally, None if local_only else forward
        )
        self._requests_by_digest.put(rendered.digest, request)
        return rendered

    async def store_bundle(self, data: bytes) -> RenderedBundle:
        """Stores and signs a bundle that comes from no repository.

        Raises Unavailable if the disk is full or broken.
        """
        digest = digest_of(data)
        await self._content.put(digest, data)
        bundle = open_bundle(digest, data)
        rendered = RenderedBundle(digest, digest, len(data), bundle.count, cached=False)
        return self._attest(rendered, AttestationStatement(digest, sources=()))

    async def signing_identity(self) -> SigningIdentity:
        """Returns the public signing key and its rotations."""
        return self._signer.identity

    async def sign_orders(self, requests: Sequence[OrderRequest]) -> list[Attestation]:
        """Signs orders to agents. Raises Invalid for too many."""
        return self._signer.sign_orders(requests)

    async def renew(self, attestation: Attestation) -> Attestation:
        """Signs a statement again after a rotation. Raises Invalid for a wrong signature."""
        return self._signer.renew(attestation)

    async def bundle(self, digest: str) -> bytes:
        """Returns the bytes of a bundle; renders it again if needed and possible.

        Raises NotFound for an unknown bundle, Unavailable if a replica or store that may have it
        cannot be reached.
        """
        request = self._requests_by_digest.get(digest)
        try:
            data = await self._content.get(digest)
        except Unavailable:
            if request is None:
                raise
            data = None
        if data is None and request is not None:
            await self.render(request)
            data = await self._content.get(digest)
        if data is None:
            raise NotFound(f"bundle {digest[:80]!r} not found")
        return data

    async def drop_copies(self) -> None:
        """Deletes the local copies of repositories that this replica does not own."""
        await self._following.drop_copies()

    async def _commit_root(self, repository_id: RepositoryId, commit: str) -> CommitRoot:
        """Finds another source of a render; fetches it if another replica owns it."""
        spec_and_record = await self._find_owned(repository_id, commit)
        if spec_and_record is None:
            await self._following.fetch_unowned(repository_id, commit)
            spec_and_record = await self._find_owned(repository_id, commit)
        if spec_and_record is None:
            raise Unavailable(f"repository {repository_id} is not followed")
        return CommitRoot(spec_and_record[0], spec_and_record[1].tree)

    def _attest(
        self,
        rendered: RenderedBundle,
        statement: AttestationStatement,
        evidence: Evidence = _NO_EVIDENCE,
    ) -> RenderedBundle:
        attestation = replace(self._signer.sign(statement), evidence=evidence.encode())
        return replace(rendered, attestation=attestation)

    async def _answer_or_forward(
        self,
        repository_id: RepositoryId,
        commit: str,
        answer_locally: LocalAnswer[Result],
        forward: RemoteAnswer[Result] | None,
    ) -> Result:
        """Answers from the local copy, or forwards to the owner, also after a change of owner."""
        if repository_id not in self._specs:
            raise NotOwner(f"repository {repository_id} is not followed", retry_after=1.0)
        for pause in _OWNER_LOOKUP_DELAYS:
            if (spec_and_record := await self._find_owned(repository_id, commit)) is not None:
                return await answer_locally(*spec_and_record)
            if forward is None:
                raise NotOwner(f"repository {repository_id} is not followed by this replica")
            owner = self._replicas.owner(repository_id)
            if owner is not None and owner != self._replicas.me and self._peers is not None:
                try:
                    answer = forward(self._peers, owner)
                    return await self._await_owner(owner, repository_id, answer)
                except PeerUnavailable as error:
                    log.info("owner unreachable", repository=repository_id, reason=error.message)
            await self._clock.sleep(pause)
        # Another replica may know the owner by now.
        raise NotOwner(
            f"no replica can currently answer for repository {repository_id}", retry_after=1.0
        )

    async def _await_owner(
        self, owner: ReplicaMember, repository_id: RepositoryId, running: Awaitable[Result]
    ) -> Result:
        """Waits for the owner's answer. Raises PeerUnavailable if the owner changes meanwhile."""
        answer = asyncio.ensure_future(running)
        try:
            while not answer.done():
                await asyncio.wait([answer], timeout=_OWNER_CHECK_SECONDS)
                if not answer.done() and self._replicas.owner(repository_id) != owner:
                    raise PeerUnavailable(f"{owner.name} no longer owns the repository")
            return answer.result()
        finally:
            answer.cancel()

    async def _find_owned(
        self, repository_id: RepositoryId, commit: str
    ) -> tuple[RepositorySpec, CommitRecord] | None:
        """Finds a commit like `_find`; None also if this replica has just lost the ownership."""
        try:
            return await self._find(repository_id, commit)
        except NotOwner as error:
            log.info("no longer owner", repository=repository_id, reason=error.message)
            return None

    async def _find(
        self, repository_id: RepositoryId, commit: str
    ) -> tuple[RepositorySpec, CommitRecord] | None:
        """Finds a commit in the local copy; fetches it if this replica is the owner."""
        follower = self._following.follower(repository_id)
        if follower is not None:
            return follower.spec, await follower.ensure_commit(commit)
        copy = self._following.old_copy_spec(repository_id)
        record = await self._reader.commit(copy, commit) if copy else None
        return None if copy is None or record is None else (copy, record)

    async def _run_housekeeping(self) -> None:
        while True:
            await self._clock.sleep(_HOUSEKEEPING_SECONDS)
            for step in (self._following.clean, *self._upkeep.housekeeping_steps):
                try:
                    await step()
                except TowlineError as error:
                    log.warning("housekeeping failed", reason=error.message)
                except Exception:
                    log.exception("housekeeping failed")


def _forwarding(operation: Operation[Query, Result], query: Query) -> RemoteAnswer[Result]:
    return lambda peers, owner: peers.call(owner, operation, query)


NormalizedPaths = Sequence[tuple[str, str | None]]


@lru_cache(8)
def _normal_paths(folders: frozenset[str]) -> tuple[NormalizedPaths, frozenset[str]]:
    """Normalizes folder paths; None for paths outside the commit.

    Cached, because the same folders are queried repeatedly.
    """
    normal = tuple((folder, _normalize(folder)) for folder in folders)
    return normal, frozenset(path for _, path in normal if path is not None)


def _normalize(folder: str) -> str | None:
    try:
        return paths.folder_path(folder)
    except Invalid:
        return None
