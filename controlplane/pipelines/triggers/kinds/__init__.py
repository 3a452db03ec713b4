"""Kinds of triggers: one module for each kind, and its line in `ALL`.

The engine that starts releases, and the work that polls, do not belong here.
"""

from controlplane.pipelines.model.triggers import TriggerRule
from controlplane.pipelines.triggers.kinds.chart import ChartRule
from controlplane.pipelines.triggers.kinds.image import ImageRule
from controlplane.pipelines.triggers.kinds.schedule import ScheduleRule
from controlplane.pipelines.triggers.kinds.tag import TagRule

ALL: tuple[type[TriggerRule], ...] = (ScheduleRule, ImageRule, ChartRule, TagRule)
"""Kinds in the order of the published schema."""

BY_KIND = {rule.kind: rule for rule in ALL}
