"""Overrides of releases in the API: skipped gates, external answers and denied revisions."""

import strawberry

from controlplane.pipelines.api.pipelines import PipelineType
from controlplane.pipelines.operations.overrides import ReleaseDecisions
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, output
from controlplane.services.model.quarantine import DeniedRevision


@output(DeniedRevision)
class DeniedRevisionType(Output[DeniedRevision]):
    """A denied commit or digest. No service receives it until a user allows it again."""


@strawberry.type
class PipelineOverrideQuery:
    @strawberry.field
    async def denied_revisions(self, info: Info) -> list[DeniedRevisionType]:
        """Denied commits and digests."""
        rows = await info.context[ReleaseDecisions].refused(info.context.actor)
        return DeniedRevisionType.of_each(rows)


@strawberry.type
class PipelineOverrideMutation:
    @strawberry.mutation
    async def skip_gate(
        self, info: Info, id: strawberry.ID, release_id: strawberry.ID, reason: str
    ) -> PipelineType | None:
        """Skips a gate for one release. Needs the permission `SKIP`.

        Args:
            id: ID of the gate.
            reason: Reason for the audit log. Limit: 1,000 characters.
        """
        overrides = info.context[ReleaseDecisions]
        return PipelineType.of(await overrides.skip(info.context.actor, id, release_id, reason))

    @strawberry.mutation
    async def answer_gate(
        self,
        info: Info,
        id: strawberry.ID,
        release_id: strawberry.ID,
        passed: bool,
        reason: str = "",
    ) -> PipelineType | None:
        """Answers an EXTERNAL gate. Only the account of the gate may call it.

        Args:
            id: ID of the gate.
            passed: True lets the release pass.
            reason: Reason shown to users. Limit: 1,000 characters.
        """
        overrides = info.context[ReleaseDecisions]
        view = await overrides.answer(info.context.actor, id, release_id, passed, reason)
        return PipelineType.of(view)

    @strawberry.mutation
    async def start_release(
        self, info: Info, id: strawberry.ID, reason: str = ""
    ) -> PipelineType | None:
        """Starts a release from the current revisions of the first stage.

        Args:
            id: ID of the pipeline.
            reason: Reason shown to users. Default: none.
        """
        triggers = info.context[Triggers]
        return PipelineType.of(await triggers.start(info.context.actor, id, reason))

    @strawberry.mutation
    async def check_trigger(
        self, info: Info, id: strawberry.ID, trigger: str
    ) -> PipelineType | None:
        """Polls a trigger now.

        Args:
            id: ID of the pipeline.
            trigger: Name of the trigger.
        """
        triggers = info.context[Triggers]
        return PipelineType.of(await triggers.check_now(info.context.actor, id, trigger))

    @strawberry.mutation
    async def abort_rollout(
        self, info: Info, id: strawberry.ID, stage: str, reason: str = ""
    ) -> PipelineType | None:
        """Aborts the rollout of a stage. The stage counts as failed; updated services keep the
        release.

        Args:
            id: ID of the pipeline.
            stage: Name of the stage.
            reason: Reason shown to users. Default: none.
        """
        overrides = info.context[ReleaseDecisions]
        return PipelineType.of(await overrides.abort(info.context.actor, id, stage, reason))

    @strawberry.mutation
    async def acknowledge_rollback(
        self, info: Info, id: strawberry.ID, stage: str
    ) -> PipelineType | None:
        """Acknowledges the rollback of a stage, so that new releases may enter it.

        Args:
            id: ID of the pipeline.
            stage: Name of the stage.
        """
        overrides = info.context[ReleaseDecisions]
        return PipelineType.of(await overrides.acknowledge_rollback(info.context.actor, id, stage))

    @strawberry.mutation
    async def deny_revision(
        self, info: Info, revision: str, reason: str, project_id: strawberry.ID | None = None
    ) -> DeniedRevisionType:
        """Denies a commit or digest to the services and pipelines of a project, or of all.

        Args:
            revision: Commit or digest, at least its first 12 characters.
            reason: Reason shown to users. Limit: 1,000 characters.
            project_id: ID of the project. Default: all projects.
        """
        overrides, actor = info.context[ReleaseDecisions], info.context.actor
        denied = await overrides.refuse(actor, revision, reason, project_id)
        return DeniedRevisionType.of(denied)

    @strawberry.mutation
    async def allow_revision(
        self, info: Info, revision: str, project_id: strawberry.ID | None = None
    ) -> DeniedRevisionType:
        """Allows a denied commit or digest again.

        Args:
            revision: Denied commit or digest.
            project_id: ID of the project that denied it. Default: all projects.
        """
        overrides, actor = info.context[ReleaseDecisions], info.context.actor
        return DeniedRevisionType.of(await overrides.lift(actor, revision, project_id))
