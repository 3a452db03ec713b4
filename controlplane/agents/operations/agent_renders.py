"""Renders by agents of clusters, instead of the git cache.

The caller waits for the render, wherever it runs. The order is a command, which reaches the agent
through any replica. Its content is encrypted for that agent and deleted with the answer.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from datetime import timedelta

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.context import CLUSTER_JOB, DESIRED_STATE, OperationContext
from controlplane.platform.ports import LOST_WAKES, Wake
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import CredentialIssuer, RepositoryStore
from core.errors import Conflict, Invalid, NotFound, Unavailable
from core.identity import ClusterId
from core.json_object import JsonObject
from core.sealing import seal
from core.spec.bundle import Attestation, open_bundle
from core.spec.render_orders import ORDER_SECRET_NAME, RenderOrder, dump_order
from core.spec.source import (
    BaseFolder,
    FetchedChart,
    RenderedBundle,
    RenderedFile,
    RenderRequest,
    RepositorySpec,
)

_RENDER_TIMEOUT_S = 90.0
_MAX_SILENCE = timedelta(seconds=60)
_MAX_ORDER_BYTES = 1 << 20


class AgentRenders:
    """Implements `AgentRenderer`. `credentials` lets agents read repositories."""

    def __init__(self, context: OperationContext, credentials: CredentialIssuer) -> None:
        self._context = context
        self._credentials = credentials

    async def render(self, cluster_id: ClusterId, request: RenderRequest) -> RenderedBundle:
        command = await self._run_order(cluster_id, request)
        if command.state is not CommandState.SUCCEEDED:
            raise Unavailable(f"the rendering agent failed: {command.message}")
        return await self._rendered_bundle(command)

    async def _rendered_bundle(self, command: Command) -> RenderedBundle:
        """The result of an agent; its size and object count are computed here, not trusted."""
        try:
            data = await self._context.manifests.bundle(command.payload.get("digest", ""))
        except NotFound:
            raise Unavailable("the rendering agent sent no bundle") from None
        bundle = open_bundle(command.payload["digest"], data)
        return RenderedBundle(
            command.payload["source"],
            bundle.digest,
            len(data),
            bundle.count,
            cached=False,
            reads=tuple(command.payload["reads"]),
            attestation=_attestation_from_json(command.payload.get("attestation")),
            charts=tuple(FetchedChart(*chart) for chart in command.payload["charts"]),
            files=tuple(RenderedFile(*file) for file in command.payload["files"]),
            bases=tuple(BaseFolder(**base) for base in command.payload.get("bases", ())),
        )

    async def _run_order(self, cluster_id: ClusterId, request: RenderRequest) -> Command:
        """Sends an order, and returns its command once it has ended."""
        cluster, repositories = await self._find_participants(cluster_id, request)
        command = await self._render_command(cluster, request, repositories)
        wakes = self._context.bus.subscribe(CLUSTER_JOB, LOST_WAKES)
        async with self._context.store.write() as tx:
            await tx[CommandStore].add(command)
        self._context.bus.publish(DESIRED_STATE, f"{cluster.id}/{command.id}")
        try:
            async with asyncio.timeout(_RENDER_TIMEOUT_S):
                return await self._wait_until_ended(command.id, wakes)
        except TimeoutError:
            await self._expire_command(command.id)
            raise Unavailable(
                f"the rendering agent of {cluster.handle} did not answer within "
                f"{_RENDER_TIMEOUT_S:.0f} s; Towline retries"
            ) from None

    async def _wait_until_ended(self, command_id: str, wakes: AsyncIterator[Wake]) -> Command:
        """Waits until the command is no longer pending."""
        async for topic, key in wakes:
            if topic != LOST_WAKES and key != command_id:
                continue
            async with self._context.store.read() as tx:
                command = await tx[CommandStore].get(command_id)
            if command is None or command.state is not CommandState.WAITING:
                break
        else:
            command = None
        if command is None:
            raise Unavailable("the order to render was dropped; Towline retries")
        return command

    async def _find_participants(
        self, cluster_id: ClusterId, request: RenderRequest
    ) -> tuple[Cluster, list[Repository]]:
        ids = {request.repository_id, *(source.repository_id for source in request.sources)}
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(cluster_id)
            repositories = await tx[RepositoryStore].by_ids(ids)
        if cluster is None:
            raise Unavailable("the cluster of the rendering agent was deleted: select another one")
        now = self._context.clock.now()
        if cluster.pinged_at is None or now - cluster.pinged_at > _MAX_SILENCE:
            raise Unavailable(
                f"the rendering agent of {cluster.handle} is not connected; the service keeps its "
                "present revision until the agent connects"
            )
        if len(repositories) != len(ids):
            raise NotFound("a source repository of the service was deleted")
        return cluster, repositories

    async def _render_command(
        self, cluster: Cluster, request: RenderRequest, repositories: list[Repository]
    ) -> Command:
        if cluster.sealing_key is None:
            raise Conflict(
                f"the agent of {cluster.handle} reported no key to seal orders with: upgrade it"
            )
        specs = [await self._repository_spec(repository) for repository in repositories]
        order = dump_order(RenderOrder(replace(request, by=None), tuple(specs)))
        command_id = self._context.new_id()
        sealed_order = seal(cluster.sealing_key, command_id, ORDER_SECRET_NAME, "", order).box
        if len(sealed_order) > _MAX_ORDER_BYTES:
            raise Invalid(
                f"the order to render has {len(sealed_order):,} bytes, but at most "
                f"{_MAX_ORDER_BYTES:,} fit"
            )
        return Command(
            command_id,
            cluster.id,
            CommandKind.RENDER,
            self._context.clock.now(),
            payload={"box": base64.b64encode(sealed_order).decode()},
        )

    async def _repository_spec(self, repository: Repository) -> RepositorySpec:
        return RepositorySpec(
            repository.id,
            repository.url,
            frozenset(),
            await self._credentials.issue_read_token(repository.id),
            submodules=repository.submodules,
            project=repository.project_id,
        )

    async def _expire_command(self, command_id: str) -> None:
        async with self._context.store.write() as tx:
            command = await tx[CommandStore].get(command_id)
            if command is not None and command.state is CommandState.WAITING:
                await tx[CommandStore].change(
                    command_id,
                    state=CommandState.FAILED,
                    message="timed out",
                    payload={},
                    finished_at=self._context.clock.now(),
                )


def render_result_to_json(bundle: RenderedBundle) -> JsonObject:
    """The result of a render, as stored in the order's row."""
    attestation = bundle.attestation and {
        "key_id": bundle.attestation.key_id,
        "statement": base64.b64encode(bundle.attestation.statement).decode(),
        "signature": base64.b64encode(bundle.attestation.signature).decode(),
        "evidence": base64.b64encode(bundle.attestation.evidence).decode(),
    }
    return {
        "digest": bundle.digest,
        "source": bundle.source,
        "reads": bundle.reads,
        "files": [(file.path, file.objects) for file in bundle.files],
        "charts": [(chart.url, chart.name) for chart in bundle.charts],
        "attestation": attestation,
        "bases": [asdict(base) for base in bundle.bases],
    }


def _attestation_from_json(stored: dict[str, str] | None) -> Attestation | None:
    """The attestation of the rendering agent; the applying agent decides whether it is valid."""
    if stored is None:
        return None
    parts = (base64.b64decode(stored[name]) for name in ("statement", "signature", "evidence"))
    return Attestation(stored["key_id"], *parts)
