"""Ports of pipelines: what its operations need of the store and of the world."""

from typing import Protocol

from controlplane.pipelines.model.records import (
    PipelineEvent,
    PipelineGate,
    PipelineRecord,
    PipelineService,
    PipelineTrigger,
)
from controlplane.platform.ports import Rows


class PipelineStore(Rows[PipelineRecord], Protocol):
    """Pipelines and the states of their engines."""


class PipelineServiceStore(Rows[PipelineService], Protocol):
    """Services that each stage holds."""


class PipelineEventStore(Rows[PipelineEvent], Protocol):
    """Events of pipelines."""


class PipelineGateStore(Rows[PipelineGate], Protocol):
    """Gates by the rows that answer them."""


class PipelineTriggerStore(Rows[PipelineTrigger], Protocol):
    """Triggers of pipelines."""
