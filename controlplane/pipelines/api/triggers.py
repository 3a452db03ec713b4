"""Triggers of pipelines in the API, which start releases in addition to commits."""

from collections.abc import Mapping
from datetime import datetime

import orjson
import strawberry

from controlplane.pipelines.api.git import write_as_json
from controlplane.pipelines.model.records import PipelineTrigger as TriggerRow
from controlplane.pipelines.model.state import FoundStatus, TriggerState
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.operations.drafts import TriggerDraft
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.triggers.kinds import ALL, BY_KIND
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    settings_of_kind,
    with_settings_of,
)
from controlplane.platform.limits import check_length

_TriggerType = enum_of_kinds("TriggerType", ALL, "Kind of a trigger.")
strawberry.enum(FoundStatus, name="TriggerState", description="State of a trigger's last finding.")


@output(TriggerState, rename={"state": "status"}, only={"status", "reason", "change"})
class PipelineTriggerType(Output[TriggerState]):
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
    value: str | None = computed(lambda state: str(state.finding) if state.finding else None)
    """Last tag or version found, with its digest if that counts. Null before the first one."""
    checked_at: datetime | None
    """Time of the last poll. Null before the first one."""
    next_at: datetime | None
    """Time of the next poll, or of the next scheduled release."""
    error: str | None
    """Error of the last poll. Null if it succeeded."""
    webhook: bool
    """True if a webhook secret is stored."""


def _trigger_type(
    trigger: Trigger, state: TriggerState, row: TriggerRow | None
) -> PipelineTriggerType:
    return PipelineTriggerType.of(
        state,
        id=trigger.id,
        name=trigger.name,
        type=trigger.rule.kind,
        settings=orjson.dumps(settings_of_kind(trigger.rule)).decode(),
        git=write_as_json(trigger.write),
        checked_at=row.checked_at if row else None,
        next_at=row.next_at if row else None,
        error=(row.error or None) if row else None,
        webhook=row is not None and row.sealed_webhook is not None,
    )


async def triggers_of(
    info: Info, pipeline_id: str, spec: tuple[Trigger, ...], states: Mapping[str, TriggerState]
) -> list[PipelineTriggerType]:
    """Returns the triggers of a pipeline with their last polls."""
    rows = await info.context[Triggers].rows(pipeline_id) if spec else {}
    return [
        _trigger_type(trigger, states.get(trigger.id, TriggerState()), rows.get(trigger.id))
        for trigger in spec
    ]


@draft(TriggerDraft, rename={"git": "write"}, hide={"rule"})
@with_settings_of(ALL, "Trigger")
class PipelineTriggerAttributes(Draft[TriggerDraft]):
    """A trigger that starts releases in addition to new commits."""

    name: str
    type: str = strawberry.field(graphql_type=_TriggerType)
    """Kind of trigger. It determines the fields that apply."""
    webhook_secret: str | None = None

    def field_values(self) -> FieldValues:
        secret = self.webhook_secret or ""
        if secret:
            check_length(secret, f"{self.name}.webhookSecret", 256, least=16)
        return {
            **super().field_values(),
            "rule": settings_from(BY_KIND[self.type], self, self.name),
        }
