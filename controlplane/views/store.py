"""The table of saved views."""

from sqlalchemy import Column, String, Table, Text, UniqueConstraint

from controlplane.platform.store.columns import EnumColumn, JsonColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import (
    id_column,
    metadata,
    optional_project_column,
    time_columns,
)
from controlplane.views.model import SavedView, Sharing
from controlplane.views.ports import SavedViewStore

saved_views = Table(
    "saved_views",
    metadata,
    id_column(),
    Column("name", String(100), nullable=False),
    Column("list", String(255), nullable=False),
    Column("owner_id", String(36), nullable=False),
    Column("owner", String(320), nullable=False),
    *time_columns(),
    Column("query", Text, nullable=False),
    Column("filters", JsonColumn(dict[str, str]), nullable=False),
    Column("columns", JsonColumn(tuple[str, ...]), nullable=False),
    Column("order", String(65), nullable=False),
    Column("sharing", EnumColumn(Sharing), nullable=False, index=True),
    optional_project_column(),
    UniqueConstraint("owner_id", "list", "name"),
)

REPOSITORIES = tables(TableRows(SavedViewStore, saved_views, SavedView))
