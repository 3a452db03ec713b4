"""Renders that the agents of clusters make: the port `Manifests` over one that renders here.

Whoever asks for a render waits for it, wherever it is made. The order is a command, so that it
reaches the agent through any replica; its content is sealed to that agent, and is gone with the
answer.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from controlplane.domain.clusters import Cluster
from controlplane.domain.commands import Command, CommandKind, CommandState
from controlplane.domain.reports import RenderMade
from controlplane.domain.repositories import Repository
from controlplane.ports import MISSED, Lender, Manifests, Wake
from controlplane.usecases.deps import CLUSTER_JOB, DESIRED, Deps
from fleet.attestation import Attestation
from fleet.bundle import open_bundle
from fleet.errors import Conflict, Invalid, NotFound, Unavailable
from fleet.identity import ClusterId, RepositoryId
from fleet.orders import NAME, RenderOrder, dump_order
from fleet.sealing import seal
from fleet.source import (
    Commit,
    Rendered,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
)

_PATIENCE_S = 90.0
_ALIVE = timedelta(seconds=60)
_LONGEST_ORDER = 1 << 20


class PlacedManifests:
    """Fills in `ports.Manifests`: a request is rendered by `by`'s agent, if it names a cluster.

    All else is `here`'s. `lender` gives what an agent may read a repository with.
    """

    def __init__(self, here: Manifests, lender: Lender, deps: Deps) -> None:
        self._here = here
        self._lender = lender
        self._deps = deps

    def follow(self, spec: RepositorySpec) -> None:
        self._here.follow(spec)

    def forget(self, repository_id: RepositoryId) -> None:
        self._here.forget(repository_id)

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None:
        self._here.on_state(callback)

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        return self._here.state(repository_id)

    async def hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        await self._here.hint(repository_id, announced)

    async def trees(
        self, repository_id: RepositoryId, commit: str, folders: Collection[str]
    ) -> Mapping[str, str | None]:
        return await self._here.trees(repository_id, commit, folders)

    async def resolve(self, repository_id: RepositoryId, name: str) -> Commit:
        return await self._here.resolve(repository_id, name)

    async def bundle(self, digest: str) -> bytes:
        return await self._here.bundle(digest)

    async def folders(
        self, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        return await self._here.folders(repository_id, commit, base, depth)

    async def keep(self, data: bytes) -> Rendered:
        return await self._here.keep(data)

    async def render(self, request: RenderRequest) -> Rendered:
        """As the port says. Unavailable also: the agent that should render cannot, and why."""
        if request.by is None:
            return await self._here.render(request)
        done = await self._ordered(request.by, request)
        if done.state is not CommandState.SUCCEEDED:
            raise Unavailable(f"the agent that renders this says: {done.message}")
        return await self._taken(done)

    async def _taken(self, done: Command) -> Rendered:
        """What has come: its size and count are reckoned here, never believed."""
        try:
            data = await self._here.bundle(done.payload.get("digest", ""))
        except NotFound:
            raise Unavailable("the agent that renders this sent no bundle") from None
        bundle = open_bundle(done.payload["digest"], data)
        return Rendered(
            done.payload["source"],
            bundle.digest,
            len(data),
            bundle.count,
            cached=False,
            reads=tuple(done.payload["reads"]),
            attestation=_attestation(done.payload.get("attestation")),
        )

    async def _ordered(self, by: ClusterId, request: RenderRequest) -> Command:
        """The order's command once it has ended."""
        cluster, repositories = await self._involved(by, request)
        command = await self._command(cluster, request, repositories)
        news = self._deps.bus.subscribe(CLUSTER_JOB, MISSED)
        async with self._deps.store.write() as tx:
            await tx.commands.add(command)
        self._deps.bus.publish(DESIRED, f"{cluster.id}/{command.id}")
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._ended(command.id, news)
        except TimeoutError:
            await self._give_up(command.id)
            raise Unavailable(
                f"the agent of {cluster.handle}, which renders this, has not done so within "
                f"{_PATIENCE_S:.0f} s: it is asked again"
            ) from None

    async def _ended(self, command_id: str, news: AsyncIterator[Wake]) -> Command:
        """The command once it waits no more."""
        async for topic, key in news:
            if topic != MISSED and key != command_id:
                continue
            async with self._deps.store.read() as tx:
                found = await tx.commands.get(command_id)
            if found is None or found.state is not CommandState.WAITING:
                break
        else:
            found = None
        if found is None:
            raise Unavailable("the order to render was dropped: it is made anew")
        return found

    async def _involved(
        self, by: ClusterId, request: RenderRequest
    ) -> tuple[Cluster, list[Repository]]:
        ids = {request.repository_id, *(source.repository_id for source in request.sources)}
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.get(by)
            repositories = await tx.repositories.select(id=ids)
        if cluster is None:
            raise Unavailable("the cluster whose agent renders this was deleted: name another")
        now = self._deps.clock.now()
        if cluster.pinged_at is None or now - cluster.pinged_at > _ALIVE:
            raise Unavailable(
                f"the agent of {cluster.handle}, which renders this, is not connected: the service "
                "keeps what it has until it is"
            )
        if len(repositories) != len(ids):
            raise NotFound("a repository that this is rendered from was deleted")
        return cluster, repositories

    async def _command(
        self, cluster: Cluster, request: RenderRequest, repositories: list[Repository]
    ) -> Command:
        if cluster.sealing_key is None:
            raise Conflict(
                f"the agent of {cluster.handle} has told no key that orders are sealed to"
            )
        specs = [await self._spec(repository) for repository in repositories]
        plain = dump_order(RenderOrder(replace(request, by=None), tuple(specs)))
        command_id = self._deps.new_id()
        box = seal(cluster.sealing_key, command_id, NAME, "", plain).box
        if len(box) > _LONGEST_ORDER:
            raise Invalid(f"the order to render has {len(box):,} bytes; {_LONGEST_ORDER:,} at most")
        return Command(
            command_id,
            cluster.id,
            CommandKind.RENDER,
            self._deps.clock.now(),
            payload={"box": base64.b64encode(box).decode()},
        )

    async def _spec(self, repository: Repository) -> RepositorySpec:
        return RepositorySpec(
            repository.id,
            repository.url,
            frozenset(),
            await self._lender.lend(repository.id),
            submodules=repository.submodules,
            project=repository.project_id,
        )

    async def _give_up(self, command_id: str) -> None:
        async with self._deps.store.write() as tx:
            found = await tx.commands.get(command_id)
            if found is not None and found.state is CommandState.WAITING:
                await tx.commands.change(
                    command_id,
                    state=CommandState.FAILED,
                    message="too late",
                    payload={},
                    finished_at=self._deps.clock.now(),
                )


def made_to_json(made: RenderMade) -> dict[str, Any]:
    """What the row of an order holds of its result."""
    word = made.attestation and {
        "key_id": made.attestation.key_id,
        "statement": base64.b64encode(made.attestation.statement).decode(),
        "signature": base64.b64encode(made.attestation.signature).decode(),
    }
    return {"digest": made.digest, "source": made.source, "reads": made.reads, "attestation": word}


def _attestation(word: dict[str, str] | None) -> Attestation | None:
    """The word of the agent that has rendered; whether it counts, the one that applies decides."""
    if word is None:
        return None
    statement, signature = (base64.b64decode(word[name]) for name in ("statement", "signature"))
    return Attestation(word["key_id"], statement, signature)
