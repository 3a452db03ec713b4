"""Revisions that users deny to the services and pipelines of a project, or of all."""

from controlplane.access.operations.scopes import find_project
from controlplane.authorization import Actor, Resource, ResourceKind, Verb
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.model.state import TEXT_LENGTH
from controlplane.pipelines.operations.engine_runner import EngineRunner
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import GENERATORS, PIPELINE, Change, OperationContext
from controlplane.platform.names import check_text
from controlplane.platform.retry import retry_operations
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import Service
from controlplane.services.operations import quarantine
from controlplane.services.operations.generations import publish_render, publish_service
from controlplane.services.ports import DeniedRevisionStore
from core.errors import Conflict, Invalid, NotFound

_MIN_REVISION_LENGTH = 12


@retry_operations
class RevisionDenials:
    """Operations on denied revisions."""

    def __init__(self, context: OperationContext, engine: EngineRunner) -> None:
        self._context = context
        self._engine = engine

    async def all(self, actor: Actor) -> list[DeniedRevision]:
        """Denied commits and digests, of all projects or of projects with readable pipelines."""
        async with self._context.read(actor) as tx:
            rows = await tx[DeniedRevisionStore].all()
        visible = [
            row for row in rows if row.project_id is None or actor.may(Verb.READ, row.target)
        ]
        return sorted(visible, key=lambda row: row.inserted_at)

    async def deny(
        self, actor: Actor, revision: str, reason: str, project_id: str | None = None
    ) -> DeniedRevision:
        """Denies a commit or digest, so that no service gets it until it is allowed again.

        Without a project, the services of all projects. NotFound: no such project.
        """
        now = self._context.clock.now()
        row = DeniedRevision.of(revision, project_id, actor.email, reason, now)
        async with self._context.change(actor, "denyRevision", (Verb.APPROVE, row.target)) as tx:
            if project_id is not None:
                await find_project(tx, project_id)
            check_text(reason, "reason", TEXT_LENGTH)
            check_text(revision, "revision", 128)
            if len(revision) < _MIN_REVISION_LENGTH:
                raise Invalid("must be a full commit id or digest", field="revision")
            if await tx[DeniedRevisionStore].get(row.id) is not None:
                raise Conflict("this revision is already denied")
            await tx[DeniedRevisionStore].add(row)
            tx.audit(revision, row.id, reason=reason)
            for pipeline in await tx[PipelineStore].all():
                if row.concerns(pipeline.project_id):
                    tx.publish(PIPELINE, pipeline.id)
        return row

    async def allow(
        self, actor: Actor, revision: str, project_id: str | None = None
    ) -> DeniedRevision:
        """Allows a denied revision again, in one project or in all. NotFound: it is not denied."""
        needs = (Verb.APPROVE, Resource.of_project(ResourceKind.PIPELINE, project_id))
        async with self._context.change(actor, "allowRevision", needs) as tx:
            rows = await tx[DeniedRevisionStore].of_revisions([revision])
            # A decision for all projects ends the denials of each as well.
            ids = [row.id for row in rows if project_id in (None, row.project_id)]
            removed = await tx[DeniedRevisionStore].lock(ids)
            if not removed:
                raise NotFound
            for row in removed:
                await tx[DeniedRevisionStore].remove(row.id)
                tx.audit(revision, row.id)
            for service in await quarantine.lift_quarantine(tx, revision, actor.email):
                _publish_quarantine_lifted(tx, service)
            pipelines = await tx[PipelineStore].all()
        for pipeline in pipelines:
            known_bad = pipeline.state.get("state", {}).get("known_bad", {})
            is_concerned = project_id in (None, pipeline.project_id)
            if revision in known_bad and is_concerned:
                await self._engine.advance(pipeline.id, ev.DenialRemoved(revision, actor.email))
        return removed[0]


def _publish_quarantine_lifted(tx: Change, service: Service) -> None:
    """Publishes that a service is no longer quarantined."""
    publish_service(tx, service)
    publish_render(tx, service)
    if service.repository_id is None and service.owner_kind is not None:
        tx.publish(GENERATORS, f"{service.owner_kind.value}/{service.owner_id}")
