"""Replays of pipelines with other gates in the API."""

from datetime import datetime

import strawberry

from controlplane.graphql.context import Info
from controlplane.graphql.pipelines import PipelineAttributes
from controlplane.usecases.whatif import PipelineReplay


@strawberry.type
class WhatIfStep:
    """Entry of a release into a stage, in reality and in the replay."""

    stage: str
    """Name of the stage."""
    release_id: strawberry.ID
    """ID of the release."""
    back: bool
    """True if the stage was rolled back to the release."""
    was: datetime | None
    """Time of entry in reality. Null if it did not enter in the time range."""
    would: datetime | None
    """Time of entry in the replay. Null if it would not enter in the time range."""


@strawberry.type
class WhatIfWaiting:
    """A release that would still wait at the end of the replay."""

    stage: str
    """Name of the stage."""
    release_id: strawberry.ID
    """ID of the release."""
    reason: str
    """Reason of the wait."""


@strawberry.type
class PipelineWhatIf:
    """Replay of a pipeline with other gates."""

    begins_at: datetime
    """Start of the replay, limited by the recorded history."""
    steps: list[WhatIfStep]
    """Entries of releases into stages."""
    waiting: list[WhatIfWaiting]
    """Releases that would still wait."""

    @classmethod
    def of(cls, replay: PipelineReplay) -> "PipelineWhatIf":
        return cls(
            begins_at=replay.begins_at,
            steps=[
                WhatIfStep(
                    stage=step.stage,
                    release_id=strawberry.ID(step.release),
                    back=step.back,
                    was=step.was,
                    would=step.would,
                )
                for step in replay.steps
            ],
            waiting=[
                WhatIfWaiting(
                    stage=release.stage,
                    release_id=strawberry.ID(release.release),
                    reason=release.reason,
                )
                for release in replay.waiting
            ],
        )


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
        whatifs = info.context.verbs.whatifs
        return PipelineWhatIf.of(await whatifs.run(info.context.actor, id, draft, since, until))
