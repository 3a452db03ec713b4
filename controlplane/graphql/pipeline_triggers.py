"""Triggers of pipelines in the API: what starts releases beside commits."""

from datetime import datetime

import orjson
import strawberry

from controlplane.domain.pipelines.state import FoundStatus, TriggerState
from controlplane.domain.pipelines.triggers import (
    ChartRule,
    ImageRule,
    ScheduleRule,
    TagPolicy,
    TagRule,
    Trigger,
    TriggerKind,
    TriggerRule,
)
from controlplane.domain.promotion import PipelineTrigger as TriggerRow
from controlplane.graphql.context import Info
from controlplane.graphql.gates import words
from controlplane.graphql.pipeline_git import GitChange, GitWriteAttributes, settings_of
from controlplane.usecases.pipelines import TriggerDraft
from fleet.errors import Invalid

strawberry.enum(TriggerKind, name="TriggerType")
strawberry.enum(TagPolicy, name="ImageTagPolicy")
strawberry.enum(FoundStatus, name="TriggerState")


@strawberry.type
class PipelineTrigger:
    """`settings` and `git` are JSON in the words of PipelineTriggerAttributes.

    `value` is what was found last, `state` how far that is. Of one that looks for news: when it did
    last and will next, and why that failed.
    """

    id: strawberry.ID
    name: str
    type: TriggerKind
    settings: str
    git: str | None
    state: FoundStatus
    value: str | None
    reason: str
    change: GitChange | None
    checked_at: datetime | None
    next_at: datetime | None
    error: str | None
    webhook: bool

    @classmethod
    def of(cls, trigger: Trigger, state: TriggerState, row: TriggerRow | None) -> "PipelineTrigger":
        digest = f"@{state.digest}" if state.digest else ""
        return cls(
            id=strawberry.ID(trigger.id),
            name=trigger.name,
            type=trigger.kind,
            settings=orjson.dumps(words(trigger.rule)).decode(),
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
) -> list[PipelineTrigger]:
    """All triggers of a pipeline, with how their looks go."""
    rows = await info.context.verbs.triggers.rows(pipeline_id) if spec else {}
    return [
        PipelineTrigger.of(one, states.get(one.id, TriggerState()), rows.get(one.id))
        for one in spec
    ]


@strawberry.input
class PipelineTriggerAttributes:
    """SCHEDULE takes `cron` and `zone`; IMAGE `image`, `policy`, `range`, `pattern`, `tag`.

    CHART takes `chart` and `range`, TAG `range`. `git` is what is written into the first stage's
    folders; with TAG the services follow the tag itself without it. `webhookSecret` is what
    signs hints; one that was given stays.
    """

    name: str
    type: TriggerKind
    cron: str = ""
    zone: str = "UTC"
    image: str = ""
    policy: TagPolicy = TagPolicy.SEMVER
    range: str = "*"
    pattern: str = ""
    tag: str = "latest"
    chart: str = ""
    git: GitWriteAttributes | None = None
    webhook_secret: str | None = None

    def draft(self) -> TriggerDraft:
        secret = self.webhook_secret or ""
        if secret and not 16 <= len(secret) <= 256:
            raise Invalid("has 16 to 256 characters", field=f"{self.name}.webhookSecret")
        write = self.git.write() if self.git else None
        return TriggerDraft(self.name, self._rule(), write, secret)

    def _rule(self) -> TriggerRule:
        match self.type:
            case TriggerKind.SCHEDULE:
                return ScheduleRule(self.cron, self.zone)
            case TriggerKind.IMAGE:
                return ImageRule(self.image, self.policy, self.range, self.pattern, self.tag)
            case TriggerKind.CHART:
                return ChartRule(self.chart, self.range)
            case TriggerKind.TAG:
                return TagRule(self.range)
