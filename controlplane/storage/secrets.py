"""Tables of secrets, their uses, and data keys."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from controlplane.domain.rotation import Rotation
from controlplane.domain.secrets import SecretSource
from controlplane.storage.columns import JsonColumn, UtcColumn
from controlplane.storage.tables import metadata

secrets = Table(
    "secrets",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("updated_at", UtcColumn, nullable=False),
    Column("project_id", String(36), index=True),
    Column("description", Text, nullable=False),
    Column("current", Integer, nullable=False),
    Column("newest", Integer, nullable=False),
    Column("source", JsonColumn(SecretSource)),
    Column("refresh_s", Integer, nullable=False),
    Column("due_at", UtcColumn, index=True),
    Column("refreshed_at", UtcColumn),
    Column("problem", Text, nullable=False),
    Column("rotation", JsonColumn(Rotation)),
)

secret_versions = Table(
    "secret_versions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("secret_id", String(36), ForeignKey("secrets.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("sealed", LargeBinary),
    Column("revoked_at", UtcColumn),
    UniqueConstraint("secret_id", "number"),
)

secret_uses = Table(
    "secret_uses",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("secret_id", String(36), ForeignKey("secrets.id"), nullable=False, index=True),
    Column("service_id", String(36), ForeignKey("services.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("version", Integer, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("changed_at", UtcColumn, nullable=False),
    Column("pinned", Boolean, nullable=False),
    UniqueConstraint("service_id", "name"),
)

data_keys = Table(
    "data_keys",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek", String(255), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("begins_at", UtcColumn, nullable=False),
)
