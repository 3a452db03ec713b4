"""Tables of secrets, their uses, and data keys."""

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator
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

from controlplane.platform.store.columns import JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import id_column, metadata, named_columns, project_column
from controlplane.secrets.model.data_keys import DataKey
from controlplane.secrets.model.generated import ValueGenerator
from controlplane.secrets.model.rotation import Rotation, RotationPlan
from controlplane.secrets.model.secret import Secret, SecretVersion
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.ports import DataKeyStore, SecretStore, SecretVersionStore
from controlplane.secrets.sources import source_from_json, source_to_json
from controlplane.services.model.parts import SecretUse
from controlplane.services.ports import SecretUseStore

_SOURCE = Annotated[SecretSource, PlainValidator(source_from_json), PlainSerializer(source_to_json)]

secrets = Table(
    "secrets",
    metadata,
    *named_columns(),
    project_column(),
    Column("description", Text, nullable=False),
    Column("current", Integer, nullable=False),
    Column("newest", Integer, nullable=False),
    Column("source", JsonColumn(_SOURCE)),
    Column("refresh_s", Integer, nullable=False),
    Column("due_at", UtcColumn, index=True),
    Column("refreshed_at", UtcColumn),
    Column("problem", Text, nullable=False),
    Column("plan", JsonColumn(RotationPlan)),
    Column("rotation", JsonColumn(Rotation)),
    Column("generate", JsonColumn(ValueGenerator)),
    Column("sealed_value", Text, nullable=False),
)

secret_versions = Table(
    "secret_versions",
    metadata,
    id_column(),
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
    id_column(),
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
    id_column(),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek", String(255), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("begins_at", UtcColumn, nullable=False),
)

REPOSITORIES = tables(
    TableRows(SecretStore, secrets, Secret, ("name", "description")),
    TableRows(SecretVersionStore, secret_versions, SecretVersion),
    TableRows(SecretUseStore, secret_uses, SecretUse),
    TableRows(DataKeyStore, data_keys, DataKey),
)
