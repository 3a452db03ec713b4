"""Tables of definitions of services over many clusters, and of cluster groups."""

from typing import Any

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, Text

from controlplane.clusters.model.selectors import Selector
from controlplane.generators.model.definitions import LeavePolicy
from controlplane.generators.model.global_service import GlobalOverride, GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.service_set import Generator, ServiceSet
from controlplane.generators.ports import (
    GlobalOverrideStore,
    GlobalServiceStore,
    ManagedNamespaceStore,
    ServiceSetStore,
)
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import (
    id_column,
    metadata,
    named_columns,
    optional_project_column,
    time_columns,
)
from controlplane.services.model.templates import ServiceTemplate, TemplateOverride


def _definition() -> tuple[Column[Any], ...]:
    return (
        *named_columns(),
        optional_project_column(),
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
    id_column(),
    Column("global_id", String(36), ForeignKey("global_services.id"), nullable=False),
    Column("cluster_id", String(36), nullable=False, index=True),
    *time_columns(),
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

REPOSITORIES = tables(
    TableRows(GlobalServiceStore, global_services, GlobalService, ("name",)),
    TableRows(GlobalOverrideStore, global_overrides, GlobalOverride),
    TableRows(ServiceSetStore, service_sets, ServiceSet, ("name",)),
    TableRows(ManagedNamespaceStore, managed_namespaces, ManagedNamespace, ("name", "namespace")),
)
