"""Tables of repositories."""

from sqlalchemy import BigInteger, Boolean, Column, LargeBinary, String, Table, Text

from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import id_column, metadata, project_column, time_columns
from controlplane.repositories.model.push import Push
from controlplane.repositories.model.repository import AuthMethod, GitHealth, Repository
from controlplane.repositories.ports import PushStore, RepositoryStore
from core.spec.source import Commit, RepositoryKind

repositories = Table(
    "repositories",
    metadata,
    id_column(),
    Column("url", String(2048), nullable=False, unique=True),
    *time_columns(),
    Column("auth_method", EnumColumn(AuthMethod)),
    Column("sealed", LargeBinary),
    Column("sealed_webhook", LargeBinary),
    Column("decrypt", Boolean, nullable=False),
    Column("health", EnumColumn(GitHealth)),
    Column("error", Text),
    Column("commits", JsonColumn(dict[str, Commit]), nullable=False),
    Column("polled_at", UtcColumn),
    Column("fetched_at", UtcColumn),
    Column("via", String(36)),
    Column("submodules", Boolean, nullable=False),
    Column("size", BigInteger),
    Column("owner", String(255)),
    project_column(),
    Column("https_path", String(2048)),
    Column("url_format", String(2048)),
    Column("kind", EnumColumn(RepositoryKind), nullable=False),
)

pushes = Table(
    "pushes",
    metadata,
    id_column(),
    Column("repository_id", String(36), nullable=False),
    Column("commit_sha", String(64), nullable=False, index=True),
    Column("name", String(255), nullable=False),
    Column("email", String(320), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False, index=True),
)

REPOSITORIES = tables(
    TableRows(RepositoryStore, repositories, Repository, ("url",)),
    TableRows(PushStore, pushes, Push),
)
