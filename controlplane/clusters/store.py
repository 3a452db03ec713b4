"""Tables of clusters."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from controlplane.clusters.model.agent_settings import AgentSettings, AgentSize
from controlplane.clusters.model.bootstrap_tokens import BootstrapToken
from controlplane.clusters.model.cluster import AgentMode, Cluster, Distribution
from controlplane.clusters.model.commands import CommandKind, CommandState
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.ports import (
    AgentSettingsStore,
    BootstrapTokenStore,
    ClusterGroupStore,
    ClusterStore,
)
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import (
    id_column,
    metadata,
    named_columns,
    optional_project_column,
    project_column,
    time_columns,
)
from core.json_object import JsonObject
from core.spec.facts import ClusterFacts

clusters = Table(
    "clusters",
    metadata,
    id_column(),
    Column("handle", String(63), nullable=False),
    Column("name", String(255), nullable=False),
    *time_columns(),
    Column("tags", JsonColumn(dict[str, str]), nullable=False),
    Column("metadata", JsonColumn(JsonObject), nullable=False),
    Column("protect", Boolean, nullable=False),
    Column("version", String(64)),
    Column("kubernetes_version", String(64)),
    Column("distribution", EnumColumn(Distribution)),
    Column("nodes", Integer),
    Column("agent_version", String(64)),
    Column("agent_instance", String(64)),
    Column("pinged_at", UtcColumn),
    Column("acknowledged", BigInteger, nullable=False),
    Column("ending_at", UtcColumn),
    Column("deleted_at", UtcColumn),
    Column("mode", EnumColumn(AgentMode), nullable=False),
    Column("facts", JsonColumn(ClusterFacts), nullable=False),
    Column("agent_token_expires_at", UtcColumn),
    Column("sealing_key", LargeBinary),
    Column("alarm", Text, nullable=False),
    project_column(),
    Column("project_given", Boolean, nullable=False),
    Column("kubernetes_uid", String(64), nullable=False, index=True),
    Column("bootstrap_token_id", String(36), index=True),
)


bootstrap_tokens = Table(
    "bootstrap_tokens",
    metadata,
    id_column(),
    Column("name", String(255), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("creator_id", String(36), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("expires_at", UtcColumn, nullable=False),
    Column("max_uses", Integer, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("tags", JsonColumn(dict[str, str]), nullable=False),
    Column("adopts", Boolean, nullable=False),
    Column("last_used_at", UtcColumn),
    Column("revoked_at", UtcColumn),
    Column("project_id", String(36), nullable=False),
    Column("cluster_id", String(36)),
)


agent_settings = Table(
    "agent_settings",
    metadata,
    *named_columns(),
    Column("selector", JsonColumn(Selector), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("version", String(64), nullable=False),
    Column("image", Text, nullable=False),
    Column("size", EnumColumn(AgentSize), nullable=False),
    Column("agent_values", Text, nullable=False),
    Column("agent_values_templated", Boolean, nullable=False),
)


cluster_groups = Table(
    "cluster_groups",
    metadata,
    *named_columns(),
    optional_project_column(),
    Column("description", Text, nullable=False),
    Column("tags", JsonColumn(dict[str, str]), nullable=False),
    Column("cluster_ids", JsonColumn(tuple[str, ...]), nullable=False),
    Column("frozen", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("frozen_by", String(320), nullable=False),
    Column("frozen_at", UtcColumn),
    Column("max_changing", Integer, nullable=False),
)

Index(
    "uq_clusters_handle",
    clusters.c.handle,
    unique=True,
    sqlite_where=clusters.c.deleted_at.is_(None),
    postgresql_where=clusters.c.deleted_at.is_(None),
)
Index("ix_clusters_liveness", clusters.c.deleted_at, clusters.c.pinged_at)


REPOSITORIES = tables(
    TableRows(ClusterStore, clusters, Cluster, ("handle", "name")),
    TableRows(BootstrapTokenStore, bootstrap_tokens, BootstrapToken),
    TableRows(AgentSettingsStore, agent_settings, AgentSettings, ("name",)),
    TableRows(ClusterGroupStore, cluster_groups, ClusterGroup, ("name",)),
)


commands = Table(
    "commands",
    metadata,
    id_column(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False),
    Column("kind", EnumColumn(CommandKind), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("service_id", String(36)),
    Column("state", EnumColumn(CommandState), nullable=False),
    Column("message", Text, nullable=False),
    Column("finished_at", UtcColumn),
    Column("payload", JsonColumn(JsonObject), nullable=False),
    Index(None, "cluster_id", "state"),
    Index(None, "state", "inserted_at"),
)
