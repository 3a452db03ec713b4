"""The tables of cluster sources."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from controlplane.cluster_sources.model.inventory import ClusterProperty
from controlplane.cluster_sources.model.members import ClusterSourceMember, MemberState
from controlplane.cluster_sources.model.source import (
    ClusterSource,
    ClusterSourceResult,
    GonePolicy,
    InventoryKind,
)
from controlplane.cluster_sources.ports import ClusterSourceMemberStore, ClusterSourceStore
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import (
    id_column,
    metadata,
    named_columns,
    project_column,
    time_columns,
)

cluster_sources = Table(
    "cluster_sources",
    metadata,
    *named_columns(),
    project_column(),
    Column("cluster_id", String(36), nullable=False, index=True),
    Column("service_account_id", String(36), nullable=False, index=True),
    Column("inventory", EnumColumn(InventoryKind), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("selector", Text, nullable=False),
    Column("name_template", String(200), nullable=False),
    Column("tags", JsonColumn(dict[str, str]), nullable=False),
    Column("tag_labels", JsonColumn(tuple[str, ...]), nullable=False),
    Column("gone", EnumColumn(GonePolicy), nullable=False),
    Column("max_clusters", Integer, nullable=False),
    Column("max_deletions", Integer, nullable=False),
    Column("interval_s", Integer, nullable=False),
    Column("suspended", Boolean, nullable=False),
    Column("result", EnumColumn(ClusterSourceResult), nullable=False),
    Column("message", Text, nullable=False),
    Column("checked_at", UtcColumn),
)

cluster_source_members = Table(
    "cluster_source_members",
    metadata,
    id_column(),
    Column("source_id", String(36), ForeignKey("cluster_sources.id"), nullable=False),
    Column("uid", String(64), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("name", String(253), nullable=False),
    *time_columns(),
    Column("state", EnumColumn(MemberState), nullable=False),
    Column("message", Text, nullable=False),
    Column("cluster_id", String(36)),
    Column("tags", JsonColumn(dict[str, str]), nullable=False),
    Column("version", String(64), nullable=False),
    Column("properties", JsonColumn(tuple[ClusterProperty, ...]), nullable=False),
    Column("token_id", String(36)),
    Column("gone_at", UtcColumn),
    Index("uq_cluster_source_members_object", "source_id", "uid", unique=True),
)

REPOSITORIES = tables(
    TableRows(ClusterSourceStore, cluster_sources, ClusterSource, ("name",)),
    TableRows(
        ClusterSourceMemberStore, cluster_source_members, ClusterSourceMember, ("namespace", "name")
    ),
)
