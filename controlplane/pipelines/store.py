"""Tables of pipelines: their services, events, gates and triggers, and denied revisions."""

from sqlalchemy import Boolean, Column, Index, Integer, LargeBinary, String, Table, Text

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
from controlplane.platform.store.columns import JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import id_column, metadata, named_columns, project_column
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.ports import DeniedRevisionStore
from core.json_object import JsonObject

pipeline_services = Table(
    "pipeline_services",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("pipeline_id", String(36), nullable=False, index=True),
    Column("service_id", String(36), nullable=False, index=True),
    Column("promoted", Boolean, nullable=False),
    Column("changing", Boolean, nullable=False, default=False),
)

pipeline_events = Table(
    "pipeline_events",
    metadata,
    id_column(),
    Column("pipeline_id", String(36), nullable=False),
    Column("at", UtcColumn, nullable=False, index=True),
    Column("events", JsonColumn(list[JsonObject]), nullable=False),
    Column("spec", JsonColumn(JsonObject)),
    Column("state", JsonColumn(JsonObject)),
    Index("ix_pipeline_events_pipeline_id_at", "pipeline_id", "at"),
)

pipeline_gates = Table(
    "pipeline_gates",
    metadata,
    id_column(),
    Column("pipeline_id", String(36), nullable=False, index=True),
    Column("measured", JsonColumn(tuple[Measurement, ...]), nullable=False, default=()),
)

pipeline_triggers = Table(
    "pipeline_triggers",
    metadata,
    id_column(),
    Column("pipeline_id", String(36), nullable=False, index=True),
    Column("interval_s", Integer, nullable=False),
    Column("checked_at", UtcColumn),
    Column("next_at", UtcColumn),
    Column("error", Text, nullable=False),
    Column("sealed_webhook", LargeBinary),
)

refused_revisions = Table(
    "refused_revisions",
    metadata,
    Column("id", String(192), primary_key=True),
    Column("revision", String(128), nullable=False, index=True),
    Column("project_id", String(36)),
    Column("actor", String(320), nullable=False),
    Column("reason", Text, nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
)


pipelines = Table(
    "pipelines",
    metadata,
    *named_columns(),
    Column("spec", JsonColumn(JsonObject), nullable=False),
    Column("state", JsonColumn(JsonObject), nullable=False),
    Column("version", Integer, nullable=False),
    project_column(),
)

REPOSITORIES = tables(
    TableRows(PipelineStore, pipelines, PipelineRecord, ("name",)),
    TableRows(PipelineServiceStore, pipeline_services, PipelineService),
    TableRows(PipelineEventStore, pipeline_events, PipelineEvent),
    TableRows(PipelineGateStore, pipeline_gates, PipelineGate),
    TableRows(PipelineTriggerStore, pipeline_triggers, PipelineTrigger),
    TableRows(DeniedRevisionStore, refused_revisions, DeniedRevision),
)
