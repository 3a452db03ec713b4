"""What people and programs do about releases beside approving them, in the API."""

from datetime import datetime

import strawberry

from controlplane.domain.promotion import RefusedRevision as RefusedRow
from controlplane.graphql.context import Info
from controlplane.graphql.pipelines import Pipeline


@strawberry.type
class RefusedRevision:
    """A commit or digest that no service is given until it is lifted."""

    revision: str
    actor: str
    reason: str
    inserted_at: datetime

    @classmethod
    def of(cls, row: RefusedRow) -> "RefusedRevision":
        return cls(revision=row.id, actor=row.actor, reason=row.reason, inserted_at=row.inserted_at)


@strawberry.type
class PipelineOverrideQuery:
    @strawberry.field(description="All commits and digests that no service is given.")
    async def refused_revisions(self, info: Info) -> list[RefusedRevision]:
        rows = await info.context.verbs.pipeline_overrides.refused(info.context.actor)
        return [RefusedRevision.of(row) for row in rows]


@strawberry.type
class PipelineOverrideMutation:
    @strawberry.mutation(
        description="Let this release pass a gate without its answer; needs the right to skip."
    )
    async def skip_gate(
        self, info: Info, id: strawberry.ID, release_id: strawberry.ID, reason: str
    ) -> Pipeline | None:
        overrides = info.context.verbs.pipeline_overrides
        return Pipeline.of(await overrides.skip(info.context.actor, id, release_id, reason))

    @strawberry.mutation(description="Decide at an EXTERNAL gate, as the account it names.")
    async def answer_gate(
        self,
        info: Info,
        id: strawberry.ID,
        release_id: strawberry.ID,
        passed: bool,
        reason: str = "",
    ) -> Pipeline | None:
        overrides = info.context.verbs.pipeline_overrides
        view = await overrides.answer(info.context.actor, id, release_id, passed, reason)
        return Pipeline.of(view)

    @strawberry.mutation(description="Make what the first stage holds a release.")
    async def start_release(
        self, info: Info, id: strawberry.ID, reason: str = ""
    ) -> Pipeline | None:
        triggers = info.context.verbs.triggers
        return Pipeline.of(await triggers.start(info.context.actor, id, reason))

    @strawberry.mutation(description="Have a trigger look for something new at once.")
    async def check_trigger(self, info: Info, id: strawberry.ID, trigger: str) -> Pipeline | None:
        triggers = info.context.verbs.triggers
        return Pipeline.of(await triggers.look_now(info.context.actor, id, trigger))

    @strawberry.mutation(description="Stop the roll-out in a stage where it is.")
    async def abort_rollout(
        self, info: Info, id: strawberry.ID, stage: str, reason: str = ""
    ) -> Pipeline | None:
        overrides = info.context.verbs.pipeline_overrides
        return Pipeline.of(await overrides.abort(info.context.actor, id, stage, reason))

    @strawberry.mutation(description="Say that somebody has seen why a stage was put back.")
    async def lift_hold(self, info: Info, id: strawberry.ID, stage: str) -> Pipeline | None:
        overrides = info.context.verbs.pipeline_overrides
        return Pipeline.of(await overrides.lift_hold(info.context.actor, id, stage))

    @strawberry.mutation(description="Have no service given a commit or digest.")
    async def refuse_revision(self, info: Info, revision: str, reason: str) -> RefusedRevision:
        overrides = info.context.verbs.pipeline_overrides
        return RefusedRevision.of(await overrides.refuse(info.context.actor, revision, reason))

    @strawberry.mutation(description="Let services have a commit or digest again.")
    async def lift_revision(self, info: Info, revision: str) -> RefusedRevision:
        overrides = info.context.verbs.pipeline_overrides
        return RefusedRevision.of(await overrides.lift(info.context.actor, revision))
