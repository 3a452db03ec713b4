"""The tables of cluster sources."""

from sqlalchemy import Index

from controlplane.cluster_sources.model.members import ClusterSourceMember
from controlplane.cluster_sources.model.source import ClusterSource
from controlplane.cluster_sources.ports import ClusterSourceMemberStore, ClusterSourceStore
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables

cluster_sources = row_table(
    "cluster_sources",
    ClusterSource,
    lengths={"namespace": 63, "name_template": 200},
    indexed={"project_id", "cluster_id", "service_account_id"},
)

cluster_source_members = row_table(
    "cluster_source_members",
    ClusterSourceMember,
    Index("uq_cluster_source_members_object", "source_id", "uid", unique=True),
    lengths={"uid": 64, "namespace": 63, "name": 253, "version": 64},
    references={"source_id": "cluster_sources.id"},
)

REPOSITORIES = tables(
    TableRows(ClusterSourceStore, cluster_sources, ClusterSource, ("name",)),
    TableRows(
        ClusterSourceMemberStore, cluster_source_members, ClusterSourceMember, ("namespace", "name")
    ),
)
