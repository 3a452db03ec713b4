"""Tables of definitions of services over many clusters, and of cluster groups."""

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from controlplane.domain.owners import LeavePolicy
from controlplane.domain.selectors import Selector
from controlplane.domain.sets import Generator
from controlplane.domain.templates import ServiceTemplate, TemplateOverride
from controlplane.storage.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.storage.tables import metadata


def _named() -> tuple[Column[Any], ...]:
    return (
        Column("id", String(36), primary_key=True),
        Column("name", String(255), nullable=False, unique=True),
        Column("inserted_at", UtcColumn, nullable=False),
        Column("updated_at", UtcColumn, nullable=False),
        Column("project_id", String(36), index=True),
    )


def _definition() -> tuple[Column[Any], ...]:
    return (
        *_named(),
        Column("selector", JsonColumn(Selector), nullable=False),
        Column("leave", EnumColumn(LeavePolicy), nullable=False),
        Column("on_delete", EnumColumn(LeavePolicy), nullable=False),
        Column("budget", Integer, nullable=False),
        Column("confirmed", Integer, nullable=False),
        Column("waiting", Integer, nullable=False),
        Column("problem", Text, nullable=False),
        Column("evaluated_at", UtcColumn),
        Column("ending_at", UtcColumn),
    )


cluster_groups = Table(
    "cluster_groups",
    metadata,
    *_named(),
    Column("description", Text, nullable=False),
    Column("tags", JsonColumn(dict[str, str]), nullable=False),
    Column("cluster_ids", JsonColumn(tuple[str, ...]), nullable=False),
    Column("frozen", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("frozen_by", String(320), nullable=False),
    Column("frozen_at", UtcColumn),
    Column("max_changing", Integer, nullable=False),
)

global_services = Table(
    "global_services",
    metadata,
    *_definition(),
    Column("source_id", String(36), index=True),
    Column("template", JsonColumn(ServiceTemplate)),
)

global_overrides = Table(
    "global_overrides",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("global_id", String(36), ForeignKey("global_services.id"), nullable=False),
    Column("cluster_id", String(36), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("updated_at", UtcColumn, nullable=False),
    Column("patch", JsonColumn(TemplateOverride), nullable=False),
    Column("actor", String(320), nullable=False),
    Index("uq_global_overrides_global_id_cluster_id", "global_id", "cluster_id", unique=True),
)

service_sets = Table(
    "service_sets",
    metadata,
    *_definition(),
    Column("generator", JsonColumn(Generator), nullable=False),
    Column("template", JsonColumn(ServiceTemplate), nullable=False),
)

managed_namespaces = Table(
    "managed_namespaces",
    metadata,
    *_definition(),
    Column("namespace", String(63), nullable=False),
    Column("labels", JsonColumn(dict[str, str]), nullable=False),
    Column("annotations", JsonColumn(dict[str, str]), nullable=False),
    Column("quota", JsonColumn(dict[str, str]), nullable=False),
    Column("template", JsonColumn(ServiceTemplate)),
)
