"""What the metrics of a gate have measured"""

import sqlalchemy as sa
from alembic import op

from controlplane.platform.store import columns

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """The default stays: replicas of the version before go on adding rows without the column."""
    with op.batch_alter_table("pipeline_gates") as batch:
        batch.add_column(
            sa.Column("measured", columns.JSON_TEXT, nullable=False, server_default="[]")
        )
