"""Tables of configuration flow: exports, imports and overrides."""

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, String, Table, UniqueConstraint

from controlplane.domain.flow import ValueType
from controlplane.domain.overrides import OverrideLayer
from controlplane.storage.columns import JSON_TEXT, EnumColumn, JsonColumn, UtcColumn
from controlplane.storage.tables import metadata

service_exports = Table(
    "service_exports",
    metadata,
    Column("id", String(36), primary_key=True),
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
    Column("id", String(36), primary_key=True),
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
    Column("id", String(36), primary_key=True),
    Column("context_id", String(36), ForeignKey("contexts.id"), nullable=False),
    Column("layer", EnumColumn(OverrideLayer), nullable=False),
    Column("place_id", String(36), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("updated_at", UtcColumn, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("configuration", JsonColumn(dict[str, Any]), nullable=False),
    UniqueConstraint("context_id", "layer", "place_id"),
)
