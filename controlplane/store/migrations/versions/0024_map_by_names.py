"""The map of the fleet by names and namespaces, from one index"""

from alembic import op

revision = "0024"
down_revision = "0023"

_MAP = ("cluster_id", "name", "mark", "namespace", "project_id")


def upgrade() -> None:
    op.drop_index("ix_services_cluster_id_name_mark", "services")
    op.create_index("ix_services_map", "services", list(_MAP))
