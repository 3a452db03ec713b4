"""Replays of pipelines with other gates, in the API."""

from datetime import datetime

import strawberry

from controlplane.graphql.context import Info
from controlplane.graphql.pipelines import PipelineAttributes
from controlplane.usecases.whatif import WhatIf


@strawberry.type
class WhatIfStep:
    """When a stage took in a release, and when it would have; null: not in that time."""

    stage: str
    release_id: strawberry.ID
    back: bool
    was: datetime | None
    would: datetime | None


@strawberry.type
class WhatIfWaiting:
    stage: str
    release_id: strawberry.ID
    reason: str


@strawberry.type
class PipelineWhatIf:
    """`beginsAt`: where the record lets the replay begin."""

    begins_at: datetime
    steps: list[WhatIfStep]
    waiting: list[WhatIfWaiting]

    @classmethod
    def of(cls, told: WhatIf) -> "PipelineWhatIf":
        return cls(
            begins_at=told.begins_at,
            steps=[
                WhatIfStep(
                    stage=one.stage,
                    release_id=strawberry.ID(one.release),
                    back=one.back,
                    was=one.was,
                    would=one.would,
                )
                for one in told.steps
            ],
            waiting=[
                WhatIfWaiting(
                    stage=one.stage, release_id=strawberry.ID(one.release), reason=one.reason
                )
                for one in told.waiting
            ],
        )


@strawberry.type
class WhatIfQuery:
    @strawberry.field(
        description="What a pipeline would have done in a past window with these gates."
    )
    async def pipeline_what_if(
        self,
        info: Info,
        id: strawberry.ID,
        attributes: PipelineAttributes,
        since: datetime,
        until: datetime,
    ) -> PipelineWhatIf | None:
        draft = attributes.draft("what-if")
        whatifs = info.context.verbs.whatifs
        return PipelineWhatIf.of(await whatifs.run(info.context.actor, id, draft, since, until))
