"""How long deployments took, reckoned once, and an index that answers figures alone"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_FIGURES = ("desired_at", "lead_s", "restore_s", "healthy_at", "failed_at", "reverted_at")


def upgrade() -> None:
    with op.batch_alter_table("deployments") as batch:
        batch.add_column(sa.Column("lead_s", sa.Float))
        batch.add_column(sa.Column("restore_s", sa.Float))
    lead, restore = _seconds("committed_at", "healthy_at"), _seconds("failed_at", "restored_at")
    op.execute(f"UPDATE deployments SET lead_s = {lead}, restore_s = {restore}")
    op.drop_index("ix_deployments_desired_at", "deployments")
    op.create_index("ix_deployments_figures", "deployments", list(_FIGURES))


def _seconds(start: str, end: str) -> str:
    if op.get_bind().dialect.name == "postgresql":
        return f"extract(epoch from {end} - {start})"
    return f"round((julianday({end}) - julianday({start})) * 86400, 3)"
