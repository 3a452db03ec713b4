"""Replicas of the control plane, and which of them holds which agent's link"""

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "replicas",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("address", sa.String(255), nullable=False),
        sa.Column("heartbeat", columns.UtcColumn, nullable=False),
    )
    op.create_table(
        "tunnels",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("since", columns.UtcColumn, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("replica_id", sa.String(36)),
        sa.Column("instance", sa.String(64), nullable=False),
        sa.Column("peer", sa.String(255), nullable=False),
        sa.Column("swaps", columns.JSON_TEXT, nullable=False),
    )
    op.create_index("ix_tunnels_replica_id", "tunnels", ["replica_id"])
