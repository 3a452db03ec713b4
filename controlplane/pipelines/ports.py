"""Ports of pipelines: what its operations need of the store and of the world."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from controlplane.pipelines.model.records import (
    Measurement,
    PipelineEvent,
    PipelineGate,
    PipelineRecord,
    PipelineService,
    PipelineTrigger,
)
from controlplane.platform.ports import Ids, NamedRows, ProjectRows, Rows
from controlplane.services.ports import ServiceRows

T = TypeVar("T")


class PipelineStore(NamedRows[PipelineRecord], ProjectRows[PipelineRecord], Protocol):
    """Pipelines and the states of their engines."""


class PipelineRows(Rows[T], Protocol[T]):
    """Rows that belong to a pipeline."""

    async def of_pipeline(self, pipeline_id: str) -> list[T]:
        return await self.select(pipeline_id=pipeline_id)


class PipelineServiceStore(PipelineRows[PipelineService], ServiceRows[PipelineService], Protocol):
    """Services that each stage holds."""

    async def changing(self) -> list[PipelineService]:
        return await self.select(changing=True)

    async def promoted(self, services: Ids) -> list[PipelineService]:
        return await self.select(service_id=services, promoted=True)


class PipelineEventStore(PipelineRows[PipelineEvent], Protocol):
    """Events of pipelines."""


class PipelineGateStore(PipelineRows[PipelineGate], Protocol):
    """Gates by the rows that answer them."""

    async def set_measured(self, id: str, measured: Sequence[Measurement]) -> None:
        await self.change(id, measured=measured)


class PipelineTriggerStore(PipelineRows[PipelineTrigger], Protocol):
    """Triggers of pipelines."""

    async def set_webhook(self, id: str, sealed: bytes | None) -> None:
        await self.change(id, sealed_webhook=sealed)
