"""Tables of configuration flow: exports, imports and overrides."""

from sqlalchemy import Column, UniqueConstraint

from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import ServiceExport, ServiceImport
from controlplane.configuration.model.overrides import ContextOverride
from controlplane.configuration.ports import (
    ContextOverrideStore,
    ContextStore,
    ServiceExportStore,
    ServiceImportStore,
)
from controlplane.platform.store.columns import JsonColumn
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables
from controlplane.services.model.parts import ContextBinding
from controlplane.services.ports import ContextBindingStore

service_exports = row_table(
    "service_exports",
    ServiceExport,
    Column("value", JsonColumn(object), nullable=False),
    UniqueConstraint("service_id", "name"),
    lengths={"name": 63},
    references={"service_id": "services.id"},
)

service_imports = row_table(
    "service_imports",
    ServiceImport,
    Column("default", JsonColumn(object), nullable=False),
    UniqueConstraint("service_id", "alias"),
    lengths={"alias": 63, "export": 63},
    indexed={"source_id"},
    references={"service_id": "services.id"},
)

context_overrides = row_table(
    "context_overrides",
    ContextOverride,
    UniqueConstraint("context_id", "layer", "place_id"),
    lengths={"actor": 320},
    indexed={"place_id"},
    references={"context_id": "contexts.id"},
)


contexts = row_table("contexts", ServiceContext, indexed={"project_id"})


context_bindings = row_table(
    "context_bindings",
    ContextBinding,
    UniqueConstraint("service_id", "context_id"),
    indexed={"context_id"},
    references={"context_id": "contexts.id", "service_id": "services.id"},
)

REPOSITORIES = tables(
    TableRows(ContextStore, contexts, ServiceContext, ("name",)),
    TableRows(ContextBindingStore, context_bindings, ContextBinding),
    TableRows(ServiceExportStore, service_exports, ServiceExport),
    TableRows(ServiceImportStore, service_imports, ServiceImport),
    TableRows(ContextOverrideStore, context_overrides, ContextOverride),
)
