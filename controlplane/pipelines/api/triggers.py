"""Triggers of pipelines in the API, which start releases in addition to commits."""

from datetime import datetime

import orjson
import strawberry

from controlplane.pipelines.api.git import GitChange, GitWriteAttributes, settings_of
from controlplane.pipelines.model.records import PipelineTrigger as TriggerRow
from controlplane.pipelines.model.state import FoundStatus, TriggerState
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.operations.drafts import TriggerDraft
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.triggers.kinds import ALL, BY_KIND
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    settings_of_kind,
    with_settings_of,
)
from core.errors import Invalid

_TriggerType = enum_of_kinds("TriggerType", ALL, "Kind of a trigger.")
strawberry.enum(FoundStatus, name="TriggerState", description="State of a trigger's last finding.")


@strawberry.type
class PipelineTriggerType:
    """A trigger of a pipeline and the result of its last poll."""

    id: strawberry.ID
    name: str
    """Name of the trigger."""
    type: str = strawberry.field(graphql_type=_TriggerType)
    """Kind of trigger."""
    settings: str
    """Settings as JSON with the field names of `PipelineTriggerAttributes`, without defaults."""
    git: str | None
    """Changes to write as JSON with the field names of `GitWriteAttributes`. Null if nothing is
    written."""
    state: FoundStatus
    """State of the last finding."""
    value: str | None
    """Last tag or version found, with its digest if that counts. Null before the first one."""
    reason: str
    """Reason of the state."""
    change: GitChange | None
    """Git change made for the last finding. Null without one."""
    checked_at: datetime | None
    """Time of the last poll. Null before the first one."""
    next_at: datetime | None
    """Time of the next poll, or of the next scheduled release."""
    error: str | None
    """Error of the last poll. Null if it succeeded."""
    webhook: bool
    """True if a webhook secret is stored."""

    @classmethod
    def of(
        cls, trigger: Trigger, state: TriggerState, row: TriggerRow | None
    ) -> "PipelineTriggerType":
        digest = f"@{state.digest}" if state.digest else ""
        return cls(
            id=strawberry.ID(trigger.id),
            name=trigger.name,
            type=trigger.kind,
            settings=orjson.dumps(settings_of_kind(trigger.rule)).decode(),
            git=settings_of(trigger.write),
            state=state.status,
            value=f"{state.value}{digest}" if state.value else None,
            reason=state.reason,
            change=GitChange.of(state.change),
            checked_at=row.checked_at if row else None,
            next_at=row.next_at if row else None,
            error=(row.error or None) if row else None,
            webhook=row is not None and row.sealed_webhook is not None,
        )


async def triggers_of(
    info: Info, pipeline_id: str, spec: tuple[Trigger, ...], states: dict[str, TriggerState]
) -> list[PipelineTriggerType]:
    """Returns the triggers of a pipeline with their last polls."""
    rows = await info.context[Triggers].rows(pipeline_id) if spec else {}
    return [
        PipelineTriggerType.of(
            trigger, states.get(trigger.id, TriggerState()), rows.get(trigger.id)
        )
        for trigger in spec
    ]


@strawberry.input
@with_settings_of(ALL, "Trigger")
class PipelineTriggerAttributes:
    """A trigger that starts releases in addition to new commits."""

    name: str
    """Name, unique in the pipeline. Limit: 255 characters."""
    type: str = strawberry.field(graphql_type=_TriggerType)
    """Kind of trigger. It determines the fields that apply."""
    git: GitWriteAttributes | None = None
    """Changes to write for each finding. Required with IMAGE and CHART. With TAG and no changes,
    services follow the tag."""
    webhook_secret: str | None = None
    """Secret that signs webhooks which cause a poll. 16 to 256 characters. Never returned. Null
    keeps the current one."""

    def draft(self) -> TriggerDraft:
        secret = self.webhook_secret or ""
        if secret and not 16 <= len(secret) <= 256:
            raise Invalid("must have 16 to 256 characters", field=f"{self.name}.webhookSecret")
        write = self.git.write() if self.git else None
        rule = settings_from(BY_KIND[self.type], self, self.name)
        return TriggerDraft(self.name, rule, write, secret)
