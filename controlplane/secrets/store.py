"""Tables of secrets, their uses, and data keys."""

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator
from sqlalchemy import BigInteger, Column, UniqueConstraint

from controlplane.platform.store.columns import JsonColumn
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables
from controlplane.secrets.model.data_keys import DataKey
from controlplane.secrets.model.secret import Secret, SecretVersion
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.ports import DataKeyStore, SecretStore, SecretVersionStore
from controlplane.secrets.sources import source_from_json, source_to_json
from controlplane.services.model.parts import SecretUse
from controlplane.services.ports import SecretUseStore

_SOURCE = Annotated[SecretSource, PlainValidator(source_from_json), PlainSerializer(source_to_json)]

secrets = row_table(
    "secrets", Secret, Column("source", JsonColumn(_SOURCE)), indexed={"project_id", "due_at"}
)

secret_versions = row_table(
    "secret_versions",
    SecretVersion,
    UniqueConstraint("secret_id", "number"),
    lengths={"actor": 320},
    references={"secret_id": "secrets.id"},
)

secret_uses = row_table(
    "secret_uses",
    SecretUse,
    Column("sequence", BigInteger, nullable=False),
    UniqueConstraint("service_id", "name"),
    lengths={"name": 255},
    indexed={"secret_id"},
    references={"secret_id": "secrets.id", "service_id": "services.id"},
)

data_keys = row_table("data_keys", DataKey, lengths={"kek": 255})

REPOSITORIES = tables(
    TableRows(SecretStore, secrets, Secret, ("name", "description")),
    TableRows(SecretVersionStore, secret_versions, SecretVersion),
    TableRows(SecretUseStore, secret_uses, SecretUse),
    TableRows(DataKeyStore, data_keys, DataKey),
)
