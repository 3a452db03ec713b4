"""The table of saved views."""

from sqlalchemy import UniqueConstraint

from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables
from controlplane.views.model import SavedView
from controlplane.views.ports import SavedViewStore

saved_views = row_table(
    "saved_views",
    SavedView,
    UniqueConstraint("owner_id", "list", "name"),
    lengths={"name": 100, "list": 255, "owner": 320, "order": 65},
    indexed={"sharing", "project_id"},
)

REPOSITORIES = tables(TableRows(SavedViewStore, saved_views, SavedView))
