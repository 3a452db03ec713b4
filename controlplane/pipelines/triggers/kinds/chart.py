"""Triggers on new versions of a chart."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.triggers import TriggerContext, TriggerFinding, TriggerRule
from controlplane.pipelines.model.versions import check_range, highest_version
from controlplane.platform.plugin_settings import MAX_NAME, Setting
from core.spec.images import parse_image


@dataclass(frozen=True, slots=True)
class ChartRule(TriggerRule):
    """New versions of a chart in an OCI registry."""

    kind = "CHART"
    title = "Chart"
    needs_write = True

    chart: Annotated[
        str, Setting("Chart", max_length=MAX_NAME, example="registry.example.org/charts/shop")
    ]
    """Name of the chart with its registry, such as `registry.example.org/charts/shop`."""
    range: Annotated[str, Setting("Version range", max_length=512)] = "*"
    """Version range in the syntax of npm."""

    @property
    def _image(self) -> str:
        return self.chart.removeprefix("oci://")

    def check_together(self, field: str) -> None:
        parse_image(self._image, f"{field}.chart")
        check_range(self.range, f"{field}.range")

    async def discover(self, context: TriggerContext) -> TriggerFinding | None:
        tags = await context.image_tags(self._image)
        return TriggerFinding.of(await asyncio.to_thread(highest_version, tags, self.range))
