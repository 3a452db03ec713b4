"""Tables of pipelines: their services, events, gates and triggers, and denied revisions."""

from sqlalchemy import Boolean, Column, Index

from controlplane.pipelines.model.records import (
    Measurement,
    PipelineEvent,
    PipelineGate,
    PipelineRecord,
    PipelineService,
    PipelineTrigger,
)
from controlplane.pipelines.ports import (
    PipelineEventStore,
    PipelineGateStore,
    PipelineServiceStore,
    PipelineStore,
    PipelineTriggerStore,
)
from controlplane.platform.store.columns import JsonColumn
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.ports import DeniedRevisionStore

pipeline_services = row_table(
    "pipeline_services",
    PipelineService,
    Column("changing", Boolean, nullable=False, default=False),
    lengths={"id": 80},
    indexed={"pipeline_id", "service_id"},
)

pipeline_events = row_table(
    "pipeline_events",
    PipelineEvent,
    Index("ix_pipeline_events_pipeline_id_at", "pipeline_id", "at"),
    indexed={"at"},
)

pipeline_gates = row_table(
    "pipeline_gates",
    PipelineGate,
    Column("measured", JsonColumn(tuple[Measurement, ...]), nullable=False, default=()),
    indexed={"pipeline_id"},
)

pipeline_triggers = row_table("pipeline_triggers", PipelineTrigger, indexed={"pipeline_id"})

refused_revisions = row_table(
    "refused_revisions",
    DeniedRevision,
    lengths={"id": 192, "revision": 128, "actor": 320},
    indexed={"revision"},
)


pipelines = row_table("pipelines", PipelineRecord, indexed={"project_id"})

REPOSITORIES = tables(
    TableRows(PipelineStore, pipelines, PipelineRecord, ("name",)),
    TableRows(PipelineServiceStore, pipeline_services, PipelineService),
    TableRows(PipelineEventStore, pipeline_events, PipelineEvent),
    TableRows(PipelineGateStore, pipeline_gates, PipelineGate),
    TableRows(PipelineTriggerStore, pipeline_triggers, PipelineTrigger),
    TableRows(DeniedRevisionStore, refused_revisions, DeniedRevision),
)
