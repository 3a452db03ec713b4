"""The table of declared resources."""

from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables

declared_resources = row_table(
    "declared_resources",
    DeclaredResource,
    lengths={"kind": 63, "prune_set": 255},
    indexed={"prune_set"},
)

REPOSITORIES = tables(TableRows(DeclaredResourceStore, declared_resources, DeclaredResource))
