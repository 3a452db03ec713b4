"""Tables of configuration flow: exports, imports and overrides."""

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
)

from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import ServiceExport, ServiceImport, ValueType
from controlplane.configuration.model.overrides import ContextOverride, OverrideLayer
from controlplane.configuration.ports import (
    ContextOverrideStore,
    ContextStore,
    ServiceExportStore,
    ServiceImportStore,
)
from controlplane.platform.store.columns import JSON_TEXT, EnumColumn, JsonColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import (
    id_column,
    metadata,
    named_columns,
    project_column,
    time_columns,
)
from controlplane.services.model.parts import ContextBinding
from controlplane.services.ports import ContextBindingStore
from core.json_object import JsonObject

service_exports = Table(
    "service_exports",
    metadata,
    id_column(),
    Column("service_id", String(36), ForeignKey("services.id"), nullable=False),
    Column("name", String(63), nullable=False),
    Column("type", EnumColumn(ValueType), nullable=False),
    Column("value", JSON_TEXT, nullable=False),
    Column("shared", Boolean, nullable=False),
    UniqueConstraint("service_id", "name"),
)

service_imports = Table(
    "service_imports",
    metadata,
    id_column(),
    Column("service_id", String(36), ForeignKey("services.id"), nullable=False),
    Column("alias", String(63), nullable=False),
    Column("source_id", String(36), nullable=False, index=True),
    Column("export", String(63), nullable=False),
    Column("default", JSON_TEXT, nullable=False),
    UniqueConstraint("service_id", "alias"),
)

context_overrides = Table(
    "context_overrides",
    metadata,
    id_column(),
    Column("context_id", String(36), ForeignKey("contexts.id"), nullable=False),
    Column("layer", EnumColumn(OverrideLayer), nullable=False),
    Column("place_id", String(36), nullable=False, index=True),
    *time_columns(),
    Column("actor", String(320), nullable=False),
    Column("configuration", JsonColumn(JsonObject), nullable=False),
    UniqueConstraint("context_id", "layer", "place_id"),
)


contexts = Table(
    "contexts",
    metadata,
    *named_columns(),
    Column("configuration", JsonColumn(JsonObject), nullable=False),
    Column("sealed", LargeBinary),
    project_column(),
    Column("project_given", Boolean, nullable=False),
    Column("types", JsonColumn(dict[str, str]), nullable=False),
    Column("by_reference", Boolean, nullable=False),
    Column("secrets_version", Integer, nullable=False),
)


context_bindings = Table(
    "context_bindings",
    metadata,
    id_column(),
    Column("context_id", String(36), ForeignKey("contexts.id"), nullable=False, index=True),
    Column("service_id", String(36), ForeignKey("services.id"), nullable=False),
    Column("may_reveal", Boolean, nullable=False),
    UniqueConstraint("service_id", "context_id"),
)

REPOSITORIES = tables(
    TableRows(ContextStore, contexts, ServiceContext, ("name",)),
    TableRows(ContextBindingStore, context_bindings, ContextBinding),
    TableRows(ServiceExportStore, service_exports, ServiceExport),
    TableRows(ServiceImportStore, service_imports, ServiceImport),
    TableRows(ContextOverrideStore, context_overrides, ContextOverride),
)
