"""Replays of pipelines with other gates in the API."""

from datetime import datetime

import strawberry

from controlplane.pipelines.api.pipelines import PipelineAttributes
from controlplane.pipelines.operations.what_if import (
    PipelineReplay,
    PipelineReplays,
    ReplayStep,
    ReplayWaiting,
)
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, output


@output(ReplayStep, rename={"release_id": "release"})
class WhatIfStep(Output[ReplayStep]):
    """Entry of a release into a stage, in reality and in the replay."""


@output(ReplayWaiting, rename={"release_id": "release"})
class WhatIfWaiting(Output[ReplayWaiting]):
    """A release that would still wait at the end of the replay."""


@output(PipelineReplay)
class PipelineWhatIf(Output[PipelineReplay]):
    """Replay of a pipeline with other gates."""


@strawberry.type
class WhatIfQuery:
    @strawberry.field
    async def pipeline_what_if(
        self,
        info: Info,
        id: strawberry.ID,
        attributes: PipelineAttributes,
        since: datetime,
        until: datetime,
    ) -> PipelineWhatIf | None:
        """Replays a past time range of a pipeline with other gates.

        Args:
            id: ID of the pipeline.
            attributes: Definition of the pipeline for the replay.
            since: Start of the time range.
            until: End of the time range.
        """
        draft = attributes.draft("what-if")
        replays = info.context[PipelineReplays]
        return PipelineWhatIf.of(await replays.run(info.context.actor, id, draft, since, until))
