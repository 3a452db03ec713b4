"""Decisions about releases in the API: gates, rollouts and denied revisions."""

import strawberry

from controlplane.pipelines.api.pipelines import DigestAttributes, PipelineType, digests_of
from controlplane.pipelines.operations.denied_revisions import RevisionDenials
from controlplane.pipelines.operations.release_decisions import ReleaseDecisions
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, output
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.services.model.quarantine import DeniedRevision


@output(DeniedRevision)
class DeniedRevisionType(Output[DeniedRevision]):
    """A denied commit or digest. No service receives it until a user allows it again."""


_DECISIONS = ResourceFields("pipeline", ReleaseDecisions, PipelineType, each(PipelineType.of))
_TRIGGERS = ResourceFields("pipeline", Triggers, PipelineType, each(PipelineType.of))
_DENIED = ResourceFields(
    "revision", RevisionDenials, DeniedRevisionType, each(DeniedRevisionType.of), is_nullable=False
)


@strawberry.type
class DeniedRevisionQuery:
    denied_revisions = _DENIED.all(RevisionDenials.all)
    """Denied commits and digests."""


@strawberry.type
class ReleaseDecisionMutation:
    @strawberry.mutation
    async def approve_gate(
        self,
        info: Info,
        id: strawberry.ID,
        digests: list[DigestAttributes] | None = None,
        comment: str | None = None,
    ) -> PipelineType | None:
        """Approves a release at a gate. The approval is bound to the digests.

        Args:
            id: ID of the gate.
            digests: Digest of each service that the caller reviewed. Required. Fails with CONFLICT
                if the gate has others by now.
            comment: Comment of the approver. Limit: 1,000 characters.
        """
        decisions = info.context[ReleaseDecisions]
        view = await decisions.approve(
            info.context.actor, id, digests_of(digests or []), comment or ""
        )
        return PipelineType.of(view)

    reject_gate = _DECISIONS.call(ReleaseDecisions.reject, gate_id="id")
    """Rejects the release that waits at a gate.

    Args:
        id: ID of the gate.
        comment: Comment shown to users.
    """
    retry_pipeline = _DECISIONS.call(ReleaseDecisions.retry)
    """Retries a rejected or failed release in a stage.

    Args:
        stage: Name of the stage.
    """
    skip_gate = _DECISIONS.call(ReleaseDecisions.skip, gate_id="id", release="release_id")
    """Skips a gate for one release. Needs the permission `SKIP`.

    Args:
        id: ID of the gate.
        reason: Reason for the audit log. Limit: 1,000 characters.
    """
    answer_gate = _DECISIONS.call(ReleaseDecisions.answer, gate_id="id", release="release_id")
    """Answers an EXTERNAL gate. Only the account of the gate may call it.

    Args:
        id: ID of the gate.
        passed: True lets the release pass.
        reason: Reason shown to users. Limit: 1,000 characters.
    """
    start_release = _TRIGGERS.call(Triggers.start, pipeline_id="id")
    """Starts a release from the current revisions of the first stage.

    Args:
        reason: Reason shown to users. Default: none.
    """
    check_trigger = _TRIGGERS.call(Triggers.poll_now, pipeline_id="id", name="trigger")
    """Polls a trigger now.

    Args:
        trigger: Name of the trigger.
    """
    abort_rollout = _DECISIONS.call(ReleaseDecisions.abort)
    """Aborts the rollout of a stage. The stage counts as failed; updated services keep the release.

    Args:
        stage: Name of the stage.
        reason: Reason shown to users. Default: none.
    """
    acknowledge_rollback = _DECISIONS.call(ReleaseDecisions.acknowledge_rollback)
    """Acknowledges the rollback of a stage, which removes its notice.

    Args:
        stage: Name of the stage.
    """
    deny_revision = _DENIED.call(RevisionDenials.deny)
    """Denies a commit or digest to the services and pipelines of a project, or of all.

    Args:
        revision: Commit or digest, at least its first 12 characters.
        reason: Reason shown to users. Limit: 1,000 characters.
        project_id: ID of the project. Default: all projects.
    """
    allow_revision = _DENIED.call(RevisionDenials.allow)
    """Allows a denied commit or digest again.

    Args:
        revision: Denied commit or digest.
        project_id: ID of the project that denied it. Default: all projects.
    """
