"""Tables of repositories."""

from sqlalchemy import BigInteger, Column

from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables
from controlplane.repositories.model.push import Push
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import PushStore, RepositoryStore

repositories = row_table(
    "repositories",
    Repository,
    Column("size", BigInteger),
    lengths={"url": 2048, "via": 36, "owner": 255, "https_path": 2048, "url_format": 2048},
    indexed={"project_id"},
    unique={"url"},
)

pushes = row_table(
    "pushes",
    Push,
    lengths={"commit_sha": 64, "name": 255, "email": 320},
    indexed={"commit_sha", "inserted_at"},
)

REPOSITORIES = tables(
    TableRows(RepositoryStore, repositories, Repository, ("url",)),
    TableRows(PushStore, pushes, Push),
)
