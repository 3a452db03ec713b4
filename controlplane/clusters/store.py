"""Tables of clusters."""

from sqlalchemy import BigInteger, Column, Index

from controlplane.clusters.model.agent_settings import AgentSettings
from controlplane.clusters.model.bootstrap_tokens import BootstrapToken
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import (
    AgentSettingsStore,
    BootstrapTokenStore,
    ClusterGroupStore,
    ClusterStore,
)
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables

clusters = row_table(
    "clusters",
    Cluster,
    Column("acknowledged", BigInteger, nullable=False),
    lengths={
        "handle": 63,
        "name": 255,
        "version": 64,
        "kubernetes_version": 64,
        "agent_version": 64,
        "agent_instance": 64,
        "kubernetes_uid": 64,
    },
    indexed={"project_id", "kubernetes_uid", "bootstrap_token_id"},
)


bootstrap_tokens = row_table(
    "bootstrap_tokens", BootstrapToken, lengths={"name": 255, "hash": 64}, unique={"hash"}
)


agent_settings = row_table("agent_settings", AgentSettings, lengths={"version": 64})


cluster_groups = row_table(
    "cluster_groups", ClusterGroup, lengths={"frozen_by": 320}, indexed={"project_id"}
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


commands = row_table(
    "commands",
    Command,
    Index(None, "cluster_id", "state"),
    Index(None, "state", "inserted_at"),
    references={"cluster_id": "clusters.id"},
)
