"""Tables of definitions of services over many clusters, and of cluster groups."""

from sqlalchemy import Index

from controlplane.generators.model.global_service import GlobalOverride, GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.service_set import ServiceSet
from controlplane.generators.ports import (
    GlobalOverrideStore,
    GlobalServiceStore,
    ManagedNamespaceStore,
    ServiceSetStore,
)
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables

global_services = row_table("global_services", GlobalService, indexed={"project_id", "source_id"})

global_overrides = row_table(
    "global_overrides",
    GlobalOverride,
    Index("uq_global_overrides_global_id_cluster_id", "global_id", "cluster_id", unique=True),
    lengths={"actor": 320},
    indexed={"cluster_id"},
    references={"global_id": "global_services.id"},
)

service_sets = row_table("service_sets", ServiceSet, indexed={"project_id"})

managed_namespaces = row_table(
    "managed_namespaces", ManagedNamespace, lengths={"namespace": 63}, indexed={"project_id"}
)

REPOSITORIES = tables(
    TableRows(GlobalServiceStore, global_services, GlobalService, ("name",)),
    TableRows(GlobalOverrideStore, global_overrides, GlobalOverride),
    TableRows(ServiceSetStore, service_sets, ServiceSet, ("name",)),
    TableRows(ManagedNamespaceStore, managed_namespaces, ManagedNamespace, ("name", "namespace")),
)
