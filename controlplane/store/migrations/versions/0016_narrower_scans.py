"""Indexes that hold all that lists are filtered by, and what stood at a moment"""

from alembic import op

revision = "0016"
down_revision = "0015"

_LISTED = ("id", "cluster_id", "project_id", "name", "namespace", "deleted_at")
_STANDING = ("replaced_at", "desired_at", "removed_at", "service_id", "sequence")


def upgrade() -> None:
    op.create_index("ix_deployments_standing", "deployments", list(_STANDING))
    if op.get_bind().dialect.name == "sqlite":
        op.drop_index("ix_services_name_parts", "services")
        op.drop_index("ix_services_namespace_parts", "services")
        op.create_index("ix_services_listed", "services", list(_LISTED))
