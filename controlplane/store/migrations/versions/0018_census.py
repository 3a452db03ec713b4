"""Indexes from which it is counted what there is, without reading a row"""

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_index("ix_clusters_liveness", "clusters", ["deleted_at", "pinged_at"])
    op.create_index("ix_commands_state_inserted_at", "commands", ["state", "inserted_at"])
    op.drop_index("ix_deployments_healthy_at", "deployments")
    op.create_index("ix_deployments_healthy_at_lead_s", "deployments", ["healthy_at", "lead_s"])
