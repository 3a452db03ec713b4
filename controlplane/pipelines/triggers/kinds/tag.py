"""Triggers on new tags of the Git repository."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.triggers import TriggerContext, TriggerFinding, TriggerRule
from controlplane.pipelines.model.versions import check_range, highest_version
from controlplane.platform.plugin_settings import Setting


@dataclass(frozen=True, slots=True)
class TagRule(TriggerRule):
    """New tags of the Git repository.

    It is the repository of the first stage's services. Without a git write these services follow
    the tag itself from then on.
    """

    kind = "TAG"
    title = "Git tag"

    range: Annotated[str, Setting("Version range", max_length=512)] = "*"
    """Version range in the syntax of npm."""

    def check_together(self, field: str) -> None:
        check_range(self.range, f"{field}.range")

    async def discover(self, context: TriggerContext) -> TriggerFinding | None:
        tags = await context.git_tags()
        return TriggerFinding.of(await asyncio.to_thread(highest_version, tags, self.range))
