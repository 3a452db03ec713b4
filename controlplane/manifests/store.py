"""The table of declared resources."""

from sqlalchemy import Column, String, Table

from controlplane.manifests.model.ownership import AppliedBy, DeclaredResource
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.store.columns import JsonColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import id_column, metadata

declared_resources = Table(
    "declared_resources",
    metadata,
    id_column(),
    Column("kind", String(63), nullable=False),
    Column("labels", JsonColumn(dict[str, str]), nullable=False),
    Column("annotations", JsonColumn(dict[str, str]), nullable=False),
    Column("managers", JsonColumn(dict[str, AppliedBy]), nullable=False),
    Column("prune_set", String(255), nullable=False, index=True),
    Column("sealed", JsonColumn(dict[str, str]), nullable=False),
)

REPOSITORIES = tables(TableRows(DeclaredResourceStore, declared_resources, DeclaredResource))
